/** Reads a target file. A problem names the field, what was expected and what came. Unknown fields are warnings. */
import { dirname, resolve } from "node:path";
import { Errors, Pointer } from "typebox/schema";
import { Settings } from "typebox/system";
import { maskSecrets } from "../contract/credentials.ts";
import { nearest } from "../contract/nearest.ts";
import { readUserJson, UserFileError } from "../supervision/user-file.ts";
import { createSecrets } from "./secrets.ts";
import { credentialsOf, misplacedKeys } from "./stated-credentials.ts";
import { TARGET_SCHEMA, type Target } from "./target.ts";
import { withCanonicalUrls, withUrlsRead } from "./target-urls.ts";

const SHOWN_MAX = 20;

export class TargetFileError extends Error {
  readonly problems: readonly string[];
  constructor(file: string, problems: readonly string[]) {
    const more = problems.length - SHOWN_MAX;
    const lines = [...problems.slice(0, SHOWN_MAX), ...(more > 0 ? [`and ${more} more like these`] : [])];
    super(`the target file ${file} cannot be used:\n${lines.map((problem) => `  ${problem}`).join("\n")}`);
    this.name = "TargetFileError";
    this.problems = problems;
  }
}

type SchemaNode = {
  description?: string;
  properties?: Record<string, SchemaNode>;
  items?: SchemaNode;
  patternProperties?: Record<string, SchemaNode>;
};

const readable = (parts: readonly string[]): string =>
  parts
    .map((part) => (/^\d+$/.test(part) ? `[${part}]` : `.${part}`))
    .join("")
    .replace(/^\./, "");

const nodeAt = (parts: readonly string[]): SchemaNode | undefined => {
  let node: SchemaNode | undefined = TARGET_SCHEMA as SchemaNode;
  for (const part of parts) {
    node = node?.properties?.[part] ?? node?.items ?? Object.values(node?.patternProperties ?? {})[0];
  }
  return node;
};

const shown = (value: unknown): string => {
  if (value === undefined) return "nothing";
  const json = maskSecrets(JSON.stringify(value));
  return json.length > 60 ? `${json.slice(0, 57)}...` : json;
};

/** Every error. By default typebox stops at eight, so that a later mistake would go unnoticed. */
const allErrors = (value: unknown): ReturnType<typeof Errors>[1] => {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: Number.POSITIVE_INFINITY });
  try {
    return Errors(TARGET_SCHEMA, value)[1];
  } finally {
    Settings.Set({ maxErrors });
  }
};

/** What does not fit the schema: problems, and warnings for fields at any depth that the schema does not have. */
const misfits = (value: unknown): Record<"problems" | "warnings", string[]> => {
  const problems = new Map<string, string>();
  const warnings: string[] = [];
  const misfit = (pointer: string): void => {
    const parts = Pointer.Indices(pointer);
    const expected = nodeAt(parts)?.description ?? "another value";
    const came = shown(Pointer.Get(value, pointer));
    problems.set(pointer, `${readable(parts) || "(the whole file)"}: expected ${expected}; got ${came}`);
  };
  for (const { keyword, instancePath, params } of allErrors(value)) {
    if (keyword === "required") {
      const { requiredProperties } = params as { requiredProperties: string[] };
      for (const name of requiredProperties) misfit(`${instancePath}/${name}`);
    } else if (keyword === "boolean") {
      // Every field that is not known has the schema `false`.
      const parts = Pointer.Indices(instancePath);
      const meant = nearest(parts.at(-1) as string, Object.keys(nodeAt(parts.slice(0, -1))?.properties ?? {}));
      const hint = meant === null ? "" : `; did you mean ${meant}?`;
      warnings.push(`${readable(parts)}: no such field is known; it is ignored${hint}`);
    } else if (keyword !== "additionalProperties") misfit(instancePath);
  }
  return { problems: [...problems.values()], warnings };
};

const isComment = (name: string): boolean => name.startsWith("//");

/** The placeholder that `init` writes. */
export const ORIGIN_TO_REPLACE = "https://your-app.example";

const unreplaced = (target: Target): string[] =>
  credentialsOf(target)
    .filter(({ origin }) => origin === ORIGIN_TO_REPLACE)
    .map(
      ({ where }) =>
        `${where}.origin: ${ORIGIN_TO_REPLACE} is what init wrote; write an origin of the key's allowlist, or its calls are refused`,
    );

/** Checks a parsed target file; `file` is its name in messages. */
export const checkTarget = (parsed: unknown, file: string): { target: Target; warnings: string[] } => {
  const value = JSON.parse(JSON.stringify(parsed, (name, inner) => (isComment(name) ? undefined : inner)));
  const { problems, warnings } = misfits(value);
  // Warnings are shown too, because a missing field may be a misspelt one.
  if (problems.length > 0) throw new TargetFileError(file, [...problems, ...warnings]);
  const target = withCanonicalUrls(value as Target, problems);
  problems.push(...misplacedKeys(target));
  if (credentialsOf(target).length === 0) {
    problems.push('credentials: expected at least one role, e.g. "server": { "key": "env:SERVER_KEY" }; got none');
  }
  const orgs = (target.tenants ?? []).map(({ org }) => org);
  const twice = orgs.find((org, at) => orgs.indexOf(org) < at);
  if (twice !== undefined) problems.push(`tenants: expected each organization once; got ${shown(twice)} twice`);
  if (problems.length > 0) throw new TargetFileError(file, [...problems, ...warnings]);
  return { target, warnings: [...warnings, ...unreplaced(target)] };
};

/**
 * The target with canonical URLs, and with every URL that was given as a reference (`env:`, `file:`) resolved. Other
 * references are resolved later, relative to `folder`. Throws `TargetFileError` and `SecretError`.
 */
export const readTargetFile = async (path: string) => {
  const file = resolve(path);
  let value: unknown;
  try {
    value = readUserJson(file);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    const absent = error.code === "ENOENT" ? ". npx floodgate init --target URL writes one" : "";
    const isUrl = /^https?:/.test(path);
    const advice = isUrl ? `. An address is no target file: npx floodgate init --target ${path} writes one` : absent;
    throw new TargetFileError(path, [`expected a readable file with JSON; ${error.message}${advice}`]);
  }
  const folder = dirname(file);
  const { target, warnings } = checkTarget(value, path);
  const problems: string[] = [];
  const read = withCanonicalUrls(await withUrlsRead(target, createSecrets(folder)), problems);
  if (problems.length > 0) throw new TargetFileError(path, problems);
  return { target: read, warnings, folder };
};
