/**
 * Reads values behind `env:NAME`, `file:PATH`, `exec:COMMAND`, and caches them until they expire or are refused. Error
 * messages name the field and reference, never the value.
 */
import { isAbsolute, join } from "node:path";
import { parseJson } from "../contract/refusals.ts";
import { boundChild, spawnChild } from "../supervision/child.ts";
import { unmarked } from "../supervision/processes.ts";
import { redactor } from "../supervision/redaction.ts";
import { readUserFile, UserFileError } from "../supervision/user-file.ts";

export class SecretError extends Error {
  constructor(what: string, expected: string, came: string) {
    super(`${what}: expected ${expected}, but ${came}`);
    this.name = "SecretError";
  }
}

export type Secrets = ReturnType<typeof createSecrets>;

const EXEC_TIMEOUT_MS = 30_000;
/** How long before its expiry a token is read again. */
const MARGIN_MS = 30_000;

export const isReference = (ref: string): boolean => /^(env|file|exec):/.test(ref);

/** The expiry of a JWT, in milliseconds since 1970; `Infinity` for other values. */
const endsAtMs = (value: string): number => {
  const payload = /^[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+$/.exec(value)?.[1] ?? "";
  const { exp } = (parseJson(Buffer.from(payload, "base64url").toString("utf8")) ?? {}) as { exp?: unknown };
  return typeof exp === "number" ? exp * 1000 : Number.POSITIVE_INFINITY;
};

const fromEnvironment = (name: string, what: string): string => {
  const value = process.env[name];
  if (value) return value;
  throw new SecretError(what, `the environment variable ${name}`, "it is not set; set it, or write another reference");
};

/** Limit for files and commands; the certificate authorities of a whole system take a quarter of it. */
const SECRET_BYTES_MAX = 1 << 20;

const fromFile = (path: string, what: string, folder: string): string => {
  const file = isAbsolute(path) ? path : join(folder, path);
  try {
    return readUserFile(file, SECRET_BYTES_MAX);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new SecretError(what, `a readable file ${file}`, error.message);
  }
};

// The user's command keeps the terminal, to ask for a password. Only its standard output is read.
const fromCommand = async (command: string, what: string, folder: string): Promise<string> => {
  const child = spawnChild("/bin/sh", ["-c", command], {
    cwd: folder,
    stdio: ["ignore", "pipe", "ignore"],
    env: unmarked(),
  });
  const bound = boundChild(child);
  bound.due(EXEC_TIMEOUT_MS, "end");
  let printed = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    printed += text;
    if (printed.length > SECRET_BYTES_MAX) bound.kill();
  });
  const { code, late, error } = await bound.ended;
  // A background process may keep the pipe open.
  child.stdout.destroy();
  if (code === 0) return printed;
  const why =
    error !== null
      ? "the shell could not be started"
      : late !== null
        ? `it did not end within ${EXEC_TIMEOUT_MS / 1000} s`
        : printed.length > SECRET_BYTES_MAX
          ? `it printed more than ${SECRET_BYTES_MAX} characters`
          : `it ended with code ${code ?? "unknown"}`;
  throw new SecretError(what, "the command of its `exec:` reference to print the value", why);
};

/** Fields that are not masked, because reports show them. A proxy's URL may hold a password, a tile's URL a key. */
const PUBLIC =
  /^(?:transport\.(?:ca|cert)|base_url|key_management_url|control\..+|toxiproxy\.api_url|(?:watchdog|observers\.prometheus)\.url)$/;

/** `folder`: the target file's, for relative paths and commands. Every value that is not `PUBLIC` gets masked. */
export const createSecrets = (folder: string) => {
  const kept = new Map<string, { value: Promise<string>; endsAtMs: number }>();
  const look = async (ref: string, what: string): Promise<string> => {
    const [kind, rest] = [ref.slice(0, ref.indexOf(":")), ref.slice(ref.indexOf(":") + 1)];
    let value = ref;
    if (isReference(ref)) {
      const from = { env: fromEnvironment, file: fromFile, exec: fromCommand }[kind as "env" | "file" | "exec"];
      // Trims only surrounding white space, because a PEM file is a value too.
      value = (await from(rest, what, folder)).trim();
      if (value === "") throw new SecretError(what, `a value from \`${kind}:\``, "it was empty");
    }
    if (!PUBLIC.test(what)) redactor.register(value, what);
    return value;
  };
  return {
    /** `what` names the field in messages, such as `credentials.server.key`. */
    read: async (ref: string, what: string): Promise<string> => {
      const found = kept.get(ref);
      if (found !== undefined && found.endsAtMs - MARGIN_MS > Date.now()) return found.value;
      const entry = { value: look(ref, what), endsAtMs: Number.POSITIVE_INFINITY };
      kept.set(ref, entry);
      try {
        const value = await entry.value;
        entry.endsAtMs = endsAtMs(value);
        return value;
      } catch (error) {
        if (kept.get(ref) === entry) kept.delete(ref);
        throw error;
      }
    },
    forget: (ref: string): void => void kept.delete(ref),
  };
};
