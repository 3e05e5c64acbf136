/**
 * Reads a target file, asks the safety guard about it, and locks the target. A problem names the field, what was expected and
 * what came. A field that the schema does not have is a problem too, because nothing would act on it.
 */
import { lookup } from "node:dns/promises";
import { tmpdir } from "node:os";
import { dirname, resolve } from "node:path";
import { Errors, Pointer } from "typebox/schema";
import { Settings } from "typebox/system";
import { AddressError, type HttpAddress, isLoopbackHost, parseHttpUrl } from "../contract/address.ts";
import { maskSecrets } from "../contract/credentials.ts";
import { nearest } from "../contract/nearest.ts";
import type { TargetName } from "../supervision/journal.ts";
import { takeLock } from "../supervision/process-lock.ts";
import { redactor } from "../supervision/redaction.ts";
import { readUserJson, UserFileError } from "../supervision/user-file.ts";
import { createSecrets, isReference, type Secrets } from "./secrets.ts";
import { credentialsOf, misplacedKeys } from "./stated-credentials.ts";
import { TARGET_SCHEMA, type Target } from "./target.ts";

// Replaces every URL of a target file, references resolved, by its canonical form (`contract/address.ts`).

const URL_FIELDS = [
  ...["base_url", "key_management_url", "tile_url", "transport.proxy", "control.keys", "control.limiter"],
  ...["control.api", "toxiproxy.api_url", "watchdog.url", "observers.prometheus.url"],
];

type Fields = Record<string, unknown>;

/** Every URL of the file with its field's path, such as `control.api[0]`. */
const urlsOf = (target: Target): { field: string; url: string; replace(by: string): void }[] =>
  URL_FIELDS.flatMap((field) => {
    const names = field.split(".");
    const last = names.pop() as string;
    const holder = names.reduce<unknown>((node, name) => (node as Fields | null | undefined)?.[name], target) as Fields;
    const found = holder?.[last];
    const put = (within: Fields, at: string | number) => (by: string) => void Object.assign(within, { [at]: by });
    if (typeof found === "string") return [{ field, url: found, replace: put(holder, last) }];
    const list = Array.isArray(found) ? (found as string[]) : [];
    return list.map((url, i) => ({ field: `${field}[${i}]`, url, replace: put(found as Fields, i) }));
  });

/** The canonical address of a field. Throws `AddressError`. */
const addressOfField = (field: string, url: string): HttpAddress => {
  const address = parseHttpUrl(url);
  // Credentials in a URL would reach logs and reports. A proxy has no other place for them.
  if (address.user !== "" && field !== "transport.proxy") {
    throw new AddressError("expected a URL without user and password; write keys under credentials");
  }
  if (field === "tile_url" && !["{z}", "{x}", "{y}"].every((part) => (address.path + address.query).includes(part))) {
    throw new AddressError("expected {z}, {x} and {y} behind the host");
  }
  // Only a tile's URL may have a query, because it is sent as written.
  if (address.query !== "" && field !== "tile_url") throw new AddressError("expected a URL without a query (?)");
  return address;
};

/** Quotes only ordinary URLs; other characters could be a secret or mislead the reader. */
const shownUrl = (url: string): string => (/^[\w.:/-]{1,80}$/.test(url) ? `"${url}"` : "another text");

/** Makes URLs canonical, except references, whose values may not be available. Adds errors to `problems`. */
const withCanonicalUrls = (target: Target, problems: string[]): Target => {
  const copy = structuredClone(target);
  for (const { field, url, replace } of urlsOf(copy)) {
    if (isReference(url)) continue;
    redactor.registerUrl(url, field);
    try {
      const { href } = addressOfField(field, url);
      replace(field === "tile_url" ? href : href.replace(/\/+$/, ""));
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      problems.push(`${field}: ${error.message}; got ${shownUrl(url)}`);
    }
  }
  return copy;
};

/** Replaces URLs that are references by their values. Throws `SecretError`. */
const withUrlsRead = async (target: Target, secrets: Secrets): Promise<Target> => {
  const copy = structuredClone(target);
  for (const { field, url, replace } of urlsOf(copy)) {
    if (isReference(url)) replace(await secrets.read(url, field));
  }
  return copy;
};

/** Normalizes a base URL: drops what identifies no target (host's case, trailing slash, credentials, query). */
const targetUrl = (baseUrl: string): string => {
  const url = new URL(baseUrl);
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, "")}`;
};

/** Identifies a deployment in a journal: base URL, and for people the name and place of its target file. */
export const targetName = ({ name, base_url }: Target, file?: string): TargetName => ({
  base_url: targetUrl(base_url),
  name,
  ...(file !== undefined && { file: resolve(file) }),
});

export const isSameTarget = (named: TargetName, { base_url }: Pick<Target, "base_url">): boolean =>
  named.base_url === targetUrl(base_url);

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

/** Returns a problem for each value that does not fit the schema, and for each field, at any depth, that the schema does not have. */
const misfits = (value: unknown): string[] => {
  const problems = new Map<string, string>();
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
      const hint =
        meant === null ? "take it out, or begin its name with // to make it a comment" : `did you mean ${meant}?`;
      problems.set(instancePath, `${readable(parts)}: no such field is known; ${hint}`);
    } else if (keyword !== "additionalProperties") misfit(instancePath);
  }
  return [...problems.values()];
};

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
  // A comment, a member that is null, and the name of a schema, which is for editors, are as if they were absent.
  const isLeftOut = (name: string, inner: unknown): boolean =>
    name.startsWith("//") || name === "$schema" || inner === null;
  const value = JSON.parse(
    JSON.stringify(parsed, (name, inner) => (isLeftOut(name, inner) ? undefined : inner)) ?? "null",
  );
  const problems = misfits(value);
  if (problems.length > 0) throw new TargetFileError(file, problems);
  const target = withCanonicalUrls(value as Target, problems);
  problems.push(...misplacedKeys(target));
  if (credentialsOf(target).length === 0) {
    problems.push('credentials: expected at least one role, e.g. "server": { "key": "env:SERVER_KEY" }; got none');
  }
  const { publishable: own, publishable_other_org: other } = target.credentials ?? {};
  if (own?.org !== undefined && own.org === other?.org) {
    const place = "credentials.publishable_other_org.org";
    problems.push(`${place}: expected another organization than that of publishable; got ${shown(own.org)} again`);
  }
  const orgs = (target.tenants ?? []).map(({ org }) => org);
  const twice = orgs.find((org, at) => orgs.indexOf(org) < at);
  if (twice !== undefined) problems.push(`tenants: expected each organization once; got ${shown(twice)} twice`);
  if (target.scale?.set.every((command) => !command.includes("{replicas}")))
    problems.push("scale.set: expected {replicas} in one of the commands, in the number's place; got none");
  if (problems.length > 0) throw new TargetFileError(file, problems);
  return { target, warnings: unreplaced(target) };
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

// What is checked before anything is sent: beyond loopback `--i-own` has to name the host, and the target file has
// to permit and budget the run; and a target has one run at a time.

type Resolve = (host: string) => Promise<readonly string[]>;

const bySystem: Resolve = async (host) => (await lookup(host, { all: true })).map(({ address }) => address);

/** A non-loopback address of the name, else `null`. A resolver may even map `localhost` elsewhere (RFC 6761). */
const whereItLeads = async (host: string, resolve: Resolve): Promise<string | null> => {
  if (!/[a-z]/.test(host.replace(/^\[.*\]$/, ""))) return null;
  // A name without an address reaches no host.
  const addresses = await resolve(host).catch(() => []);
  return addresses.find((address) => !isLoopbackHost(address)) ?? null;
};

export type Intent = { load: boolean; faults: boolean; requests: number };

/** Reasons to refuse; empty if a run may send. `owned`: canonical hosts. `resolve` replaces the system's resolver. */
export const guardTarget = async (target: Target, owned: readonly string[], intent: Intent, resolve = bySystem) => {
  const reasons: string[] = [];
  const fieldOf = new Map<string, string>();
  for (const { field, url } of urlsOf(target)) {
    try {
      const { host } = addressOfField(field, url);
      fieldOf.set(host, field);
      if (!isLoopbackHost(host) && !owned.includes(host)) {
        reasons.push(`${field} is on ${host}, which is not loopback: say --i-own ${host} if it is yours`);
      }
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      reasons.push(`${field}: ${error.message}`);
    }
  }
  const foreign = [...fieldOf.keys()].filter((host) => !isLoopbackHost(host));
  for (const [host, field] of fieldOf) {
    const elsewhere = foreign.includes(host) ? null : await whereItLeads(host, resolve);
    const where = `${field} is on ${host}, which resolves to ${elsewhere} here and not to loopback`;
    if (elsewhere !== null) reasons.push(`${where}: correct the resolver or /etc/hosts, or write 127.0.0.1`);
  }
  if (foreign.length === 0) return reasons;
  const most = target.budget?.requests;
  if (most === undefined) {
    reasons.push("the target file has no budget.requests: say how many requests a run may send there");
  } else if (intent.requests > most) {
    const sent = `${intent.requests} requests would be sent and budget.requests allows ${most}`;
    reasons.push(`${sent}: raise it or ask for less`);
  }
  if (intent.load && target.permits?.load_max_rps === undefined) {
    reasons.push("the target file has no permits.load_max_rps: say how many calls a second it may bear");
  }
  if (intent.faults && target.permits?.chaos !== true) {
    reasons.push("faults would be injected and permits.chaos is not true in the target file");
  }
  return reasons;
};

/** Reports a mistake of the user, which exits with code 2. */
export class TargetBusyError extends Error {
  override name = "TargetBusyError";
}

/** Locks a target, because two runs would heal each other's faults. Throws `TargetBusyError` if a run holds it. */
export const lockTarget = (baseUrl: string, folder: string = tmpdir()) => {
  const url = targetUrl(baseUrl);
  const { lock, rival } = takeLock(folder, url);
  if (lock !== null) return lock;
  const { pid, path } = rival;
  throw new TargetBusyError(
    `another run (process ${pid}) works on ${url} now; wait for it, or stop it with \`kill ${pid}\`. One run per target at a time (lock file ${path}).`,
  );
};
