/**
 * Reads a target file (README, "Your own deployment") inside k6, where there is no Node: `env:` from `-e` or the
 * environment, `file:` beside the target file. Mistakes are reported in a sentence before anything is sent.
 */
import { AddressError, canonicalHost, isLoopbackHost, parseHttpUrl } from "../../src/contract/address.ts";
import type { StatedStreamEnds } from "../../src/contract/streams.ts";
import type { StatedBounds } from "../../src/workload/budget.ts";
import type { StatedTarget } from "../../src/workload/callers/view-of-target.ts";
import { PLACEHOLDER } from "../../src/workload/handover.ts";
import { unknownField } from "./target-fields.ts";

/** A mistake in the user's input; the message is a sentence for the user. */
export class Refusal extends Error {}

type TargetFile = StatedTarget &
  StatedBounds & {
    readonly name?: string;
    readonly base_url: string;
    readonly key_management_url?: string;
    readonly tile_url?: string;
    readonly stream_end?: StatedStreamEnds;
    readonly transport?: {
      readonly ca?: string;
      readonly cert?: string;
      readonly key?: string;
      readonly proxy?: string;
      readonly headers?: Record<string, string>;
      readonly protocol?: "h1" | "h2";
    };
  };

type TargetRead = {
  file: TargetFile;
  /** The value behind a reference; `what` names the field for a message. */
  read(value: string, what: string): string;
};

const isAbsolute = (path: string): boolean => /^([/\\]|[A-Za-z]:)/.test(path);

const under = (folder: string | undefined, path: string): string => {
  if (isAbsolute(path)) return path;
  if (folder === undefined || folder === "") {
    throw new Refusal(`${path}: expected an absolute path, because the environment has no PWD to start from`);
  }
  return `${folder}/${path}`;
};

const openText = (path: string, what: string): string => {
  try {
    return open(path);
  } catch {
    throw new Refusal(`${what}: expected a readable file ${path}; there is none`);
  }
};

/** Removes members that are null, comments, and the name of a schema, because they count as absent. */
const withoutNulls = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(withoutNulls);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([key, member]) =>
      member === null || key.startsWith("//") || key === "$schema" ? [] : [[key, withoutNulls(member)]],
    ),
  );
};

const parse = (text: string, path: string): TargetFile => {
  let value: unknown;
  try {
    value = withoutNulls(JSON.parse(text));
  } catch {
    // The message of JSON.parse quotes the text around the fault, which may be a key.
    throw new Refusal(`${path}: expected JSON; npx floodgate doctor --target ${path} says where it breaks off`);
  }
  const { schema, base_url } = (value ?? {}) as { schema?: unknown; base_url?: unknown };
  if (schema !== "floodgate/target@1" || typeof base_url !== "string") {
    throw new Refusal(`${path}: expected "schema": "floodgate/target@1" and "base_url"; got another kind of file`);
  }
  const unknown = unknownField(value);
  if (unknown !== null) throw new Refusal(`${path}: ${unknown}`);
  return value as TargetFile;
};

const textBehind = (value: string, what: string, folder: string | undefined): string => {
  const [, kind, rest = ""] = /^(env|file|exec):([\s\S]*)$/.exec(value) ?? [];
  if (kind === undefined) return value;
  if (kind === "exec") {
    throw new Refusal(
      `${what}: k6 cannot run commands, so an exec: reference cannot be read here; use env: or file:, or npx floodgate load`,
    );
  }
  const found = kind === "env" ? __ENV[rest] : openText(under(folder, rest), what);
  if (found === PLACEHOLDER && __ENV.FLOODGATE_ARCHIVING !== "yes") {
    throw new Refusal(`${what}: expected a value in ${rest}; the Secret of this run does not have it`);
  }
  if (found === undefined || found.trim() === "") {
    throw new Refusal(
      `${what}: expected a value from ${value}; it is empty (k6 takes ${rest} from -e ${rest}=… as well)`,
    );
  }
  return found.trim();
};

const ownedHosts = (): string[] => {
  const given = __ENV.I_OWN;
  if (given === undefined) return [];
  return given.split(",").map((host) => {
    try {
      return canonicalHost(host);
    } catch (error) {
      throw new Refusal(`-e I_OWN: ${(error as AddressError).message}; several are separated by commas`);
    }
  });
};

type Read = TargetRead["read"];

/** Resolves each URL that k6 uses to its canonical form, so that no address such as `127.1` is looked up as a name. */
const withCanonicalUrls = (file: TargetFile, read: Read): TargetFile => {
  const owned = ownedHosts();
  const canonical = (name: string, stated: string): string => {
    try {
      const { host, href, user } = parseHttpUrl(read(stated, name));
      if (user !== "" && name !== "transport.proxy") throw new AddressError("expected a URL without user and password");
      guard(name, host, owned, file);
      return name === "tile_url" ? href : href.replace(/\/+$/, "");
    } catch (error) {
      if (error instanceof AddressError) throw new Refusal(`${name}: ${error.message}`);
      throw error;
    }
  };
  const { base_url, key_management_url, tile_url, transport } = file;
  return {
    ...file,
    base_url: canonical("base_url", base_url),
    ...(key_management_url && { key_management_url: canonical("key_management_url", key_management_url) }),
    ...(tile_url && { tile_url: canonical("tile_url", tile_url) }),
    ...(transport?.proxy && { transport: { ...transport, proxy: canonical("transport.proxy", transport.proxy) } }),
  };
};

/** Throws for a host that is not loopback, unless the user owns it and the file permits and budgets the load. */
const guard = (name: string, host: string, owned: readonly string[], { permits, budget }: TargetFile): void => {
  if (isLoopbackHost(host)) return;
  if (!owned.includes(host)) {
    throw new Refusal(`${name} is on ${host}, which is not loopback: say -e I_OWN=${host} if it is yours`);
  }
  if (permits?.load_max_rps === undefined || budget?.requests === undefined) {
    throw new Refusal(
      `${host} is not loopback, so the target file has to state permits.load_max_rps and budget.requests`,
    );
  }
};

/** Throws if the environment lacks settings that k6 and Go read only there: authorities and the HTTP version. */
const checkEnvironment = ({ transport = {}, base_url }: TargetFile): void => {
  if (transport.ca !== undefined && (__ENV.SSL_CERT_FILE ?? "") === "") {
    throw new Refusal("transport.ca: k6 takes authorities from the environment; set SSL_CERT_FILE to that file");
  }
  const speaksH1 = (__ENV.GODEBUG ?? "").split(",").includes("http2client=0");
  const { protocol = "h1" } = transport;
  if (base_url.startsWith("https:") && (protocol === "h1") !== speaksH1) {
    const what = protocol === "h1" ? "set GODEBUG=http2client=0" : "do not set GODEBUG=http2client=0";
    throw new Refusal(
      `transport.protocol is "${protocol}": k6 takes the version of HTTP from the environment; ${what}`,
    );
  }
  if (transport.proxy === undefined) return;
  if (isLoopbackHost(parseHttpUrl(base_url).host)) {
    throw new Refusal("transport.proxy: k6 by itself goes to loopback past any proxy; use npx floodgate load");
  }
  const variable = base_url.startsWith("https:") ? "HTTPS_PROXY" : "HTTP_PROXY";
  if ((__ENV[variable] ?? "").replace(/\/+$/, "") !== transport.proxy) {
    throw new Refusal(`transport.proxy: k6 takes a proxy from the environment; set ${variable} to the same address`);
  }
};

/** Reads the target file, without secrets, of an archive by `load --operator`, in which no other file can be opened. */
const readArchivedTarget = (text: string): TargetRead => {
  const read: Read = (value, what) => textBehind(value, what, undefined);
  return { file: withCanonicalUrls(parse(text, "FLOODGATE_TARGET_JSON"), read), read };
};

export const readStatedTarget = (): TargetRead => {
  const archived = __ENV.FLOODGATE_TARGET_JSON;
  if (archived !== undefined && archived !== "") return readArchivedTarget(archived);
  const given = __ENV.FLOODGATE_TARGET;
  if (given === undefined || given === "") {
    throw new Refusal(
      "no target was given: k6 run -e FLOODGATE_TARGET=target.json SCRIPT, or npx floodgate load SCENARIO --driver k6",
    );
  }
  const path = under(__ENV.PWD, given);
  const folder = path.slice(0, Math.max(path.lastIndexOf("/"), path.lastIndexOf("\\"), 0)) || "/";
  const read: Read = (value, what) => textBehind(value, what, folder);
  const file = withCanonicalUrls(parse(openText(path, "FLOODGATE_TARGET"), given), read);
  checkEnvironment(file);
  return { file, read };
};
