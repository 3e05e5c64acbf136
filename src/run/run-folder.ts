/** Makes the folder of a run. Every text is masked; files other than those of lines are written whole or not at all. */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import {
  accessSync,
  chmodSync,
  constants,
  createWriteStream,
  lstatSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { stat } from "node:fs/promises";
import { basename, dirname, isAbsolute, join, normalize, relative, resolve } from "node:path";
import { finished } from "node:stream/promises";
import type { RunFolder } from "../deployments/run-context.ts";
import { writePrivateFile } from "../supervision/private-file.ts";
import { redactor as ofThisProcess, type Redactor } from "../supervision/redaction.ts";
import { makeFolders } from "../supervision/user-file.ts";
import { atPlace, UsageError } from "./exit-codes.ts";

/** `20261121T083800Z-…`: sorts by time and is legal in a file name everywhere. */
const newId = (profile: string, now: Date): string => {
  const stamp = now.toISOString().slice(0, 19).replace(/[-:]/g, "");
  const plain = profile.replace(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);
  return `${stamp}Z-${plain}-${randomBytes(2).toString("hex")}`;
};

const makeUnder = (runs: string, profile: string, now: Date): { id: string; path: string } => {
  makeFolders(runs);
  for (let attempt = 0; ; attempt++) {
    const id = newId(profile, now);
    const path = join(runs, id);
    try {
      mkdirSync(path, { mode: 0o700 });
      return { id, path };
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || attempt >= 20) throw error;
    }
  }
};

const statOf = (path: string) => lstatSync(path, { throwIfNoEntry: false });

const makeAt = (out: string): string => {
  const path = resolve(out);
  const found = statOf(path);
  if (found !== undefined && (!found.isDirectory() || readdirSync(path).length > 0))
    throw new UsageError(
      `--out ${out} is not an empty folder; name a new one, so that no earlier run is mixed with this one`,
    );
  makeFolders(path, 0o700);
  // Others may not write here, because healing trusts no journal that others could have written.
  try {
    chmodSync(path, lstatSync(path).mode & 0o7755);
  } catch {}
  // An unusable folder fails now, not when the first file is written.
  accessSync(path, constants.W_OK | constants.X_OK);
  return path;
};

/** Makes `reports/latest` a link, or a file with the path if links cannot be made. Never replaces a folder. */
const pointLatestAt = (reports: string, path: string): void => {
  const latest = join(reports, "latest");
  const target = relative(reports, path);
  const draft = `${latest}.${randomBytes(4).toString("hex")}`;
  if (statOf(latest)?.isDirectory() === true) return;
  try {
    symlinkSync(target, draft);
    renameSync(draft, latest);
  } catch {
    rmSync(draft, { force: true });
    try {
      rmSync(latest, { force: true });
      writeFileSync(latest, `${target}\n`);
    } catch {}
  }
};

type Where = { profile: string; now: Date; reports: string; out?: string; redactor?: Redactor };

/** `out`: the run folder, new or empty. Throws if it cannot be made: `UsageError` if another place would do. */
export const makeRunFolder = ({ profile, now, reports, out, redactor }: Where): RunFolder => {
  const runs = join(resolve(reports), "runs");
  const made =
    out === undefined
      ? atPlace(`no run folder can be made in ${runs}`, () => makeUnder(runs, profile, now))
      : { id: newId(profile, now), path: atPlace(`--out ${out}`, () => makeAt(out)) };
  // With `--out` an existing link is moved too, so that it never names an earlier run.
  if (out === undefined || statOf(join(reports, "latest"))) pointLatestAt(resolve(reports), made.path);
  return writersIn(made, redactor);
};

export const openRunFolder = (path: string, redactor?: Redactor): RunFolder =>
  writersIn({ id: basename(path), path }, redactor);

const writersIn = (made: { id: string; path: string }, redactor: Redactor = ofThisProcess): RunFolder => {
  const pathOf = (name: string): string => {
    if (isAbsolute(name) || normalize(name).startsWith(".."))
      throw new Error(`a file of the run folder is named inside it, not "${name}"`);
    const path = join(made.path, name);
    makeFolders(dirname(path), 0o700);
    return path;
  };
  const writeText = async (name: string, text: string): Promise<void> =>
    writePrivateFile(pathOf(name), redactor.redact(text));
  return {
    ...made,
    pathOf,
    masked: <T>(value: T) => redactor.redactValue(value) as T,
    writeText,
    writeJson: (name, value) => writeText(name, `${JSON.stringify(redactor.redactValue(value), null, 2)}\n`),
    openLines: (name) => {
      const path = pathOf(name);
      const stream = createWriteStream(path, { flags: "a", mode: 0o600 });
      let failure: Error | null = null;
      stream.on("error", (error) => {
        failure = error;
      });
      return {
        write: async (line) => {
          if (failure !== null) throw failure;
          if (stream.write(`${redactor.redact(line)}\n`)) return;
          await once(stream, "drain");
        },
        flushed: async () => {
          await new Promise<void>((resolve, reject) =>
            stream.write("", (error) => (error == null ? resolve() : reject(error))),
          );
          return (await stat(path)).size;
        },
        close: async () => {
          if (failure !== null) throw failure;
          stream.end();
          await finished(stream);
        },
      };
    },
  };
};
