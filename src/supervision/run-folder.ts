/** The folder of a run. Every text is masked before it is written. */
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize } from "node:path";
import { finished } from "node:stream/promises";
import { fileURLToPath } from "node:url";
import { writePrivateFile } from "./private-file.ts";
import { redactor as ofThisProcess, type Redactor } from "./redaction.ts";
import { makeFolders } from "./user-file.ts";

export type RunFolder = ReturnType<typeof openRunFolder>;

/** `id`: `<UTC time>-<profile>-<4 hex>`. */
export const openRunFolder = (path: string, redactor: Redactor = ofThisProcess, id = basename(path)) => {
  /** Returns a file's absolute path and makes its folder. Throws if the name leads outside the run folder. */
  const pathOf = (name: string): string => {
    if (isAbsolute(name) || normalize(name).startsWith(".."))
      throw new Error(`a file of the run folder is named inside it, not "${name}"`);
    makeFolders(dirname(join(path, name)), 0o700);
    return join(path, name);
  };
  /** Writes atomically: the file has all of the new text, or its old content. */
  const writeText = async (name: string, text: string) => writePrivateFile(pathOf(name), redactor.redact(text));
  return {
    ...{ id, path, pathOf, writeText },
    /** Masks every text in a value before it is written in a format that changes how a secret looks. */
    masked: <T>(value: T) => redactor.redactValue(value) as T,
    writeJson: (name: string, value: unknown): Promise<void> =>
      writeText(name, `${JSON.stringify(redactor.redactValue(value), null, 2)}\n`),
    openLines: (name: string) => {
      const file = pathOf(name);
      const stream = createWriteStream(file, { flags: "a", mode: 0o600 });
      // A failure is thrown by the next write, or when the file is closed.
      stream.on("error", () => undefined);
      return {
        /** Writes a line, given without its line end; resolves when more may be written. */
        write: async (line: string): Promise<void> => {
          if (stream.errored !== null) throw stream.errored;
          if (!stream.write(`${redactor.redact(line)}\n`)) await once(stream, "drain");
        },
        /** Resolves to the size of the file in bytes when every line so far stands in it. */
        flushed: async (): Promise<number> => {
          await new Promise<void>((resolve, reject) =>
            stream.write("", (error) => (error == null ? resolve() : reject(error))),
          );
          return (await stat(file)).size;
        },
        close: async (): Promise<void> => {
          if (stream.errored !== null) throw stream.errored;
          stream.end();
          await finished(stream);
        },
      };
    },
  };
};

/** The folder that contains `src` and `scenarios`. */
export const REPOSITORY = fileURLToPath(new URL("../..", import.meta.url));
