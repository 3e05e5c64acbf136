/** A failing case as a replayable file: variables stand for secrets, and each call is also a curl command. */
import { maskSecrets } from "../contract/credentials.ts";
import { RECORDED_BOUNDS, readUserJson, UserFileError } from "../supervision/user-file.ts";
import type { Failure } from "./checks.ts";
import type { Permission } from "./planning/needs.ts";
import type { Rule } from "./rule.ts";
import type { Answer } from "./sending/answer.ts";
import type { SentRequest } from "./sending/test-call.ts";

const CRASH_SCHEMA = "floodgate/crash@1";

/** `saves` maps variables of later steps to the fields of this answer that hold their values. */
type CrashStep = SentRequest & { got: string; saves?: Record<string, string> };

export type Crash = ReturnType<typeof crashOf>;

const KNOWN_VARIABLES: Readonly<Record<string, string>> = {
  $GARBAGE: "any text that is no key",
  $UNKNOWN_SERVER: "a well-formed server key that nobody issued",
  $UNKNOWN_PUBLISHABLE: "a well-formed publishable key that nobody issued",
  $UNKNOWN_SESSION: "a well-formed session token that nobody issued",
  $ALMOST_A_KEY: "a key or token of the target file, changed as the rule says",
  $NON_ASCII_KEY: "a well-formed key that nobody issued, with a letter outside ASCII at its end",
  $LONG_KEY: "a key of some thousand characters",
  $UNPARSABLE_SESSION: "svc_sess_live_ and a text that is no JWT, as the step says",
  $TAMPERED_SESSION: "a session token with its signature, its algorithm or its end changed",
  $CREATED_KEY: "the key in the answer to the creation",
  $CREATED_ID: "the id in the answer to the creation",
  $CREATED_SESSION: "session_token in the answer of the exchange to the created key",
};

const meaningOf = (variable: string): string => {
  const known = KNOWN_VARIABLES[variable];
  if (known !== undefined) return known;
  const [, of, product = ""] = /^\$SESSION_(\w+)_(CHAT|EDITOR|VIEWER|TILE)$/.exec(variable) ?? [];
  if (of !== undefined)
    return `session_token of POST /sdk/sessions with $KEY_${of}, its Origin and product ${product.toLowerCase()}`;
  const [, kind, name = ""] = /^\$(KEY|TOKEN|HEADER)_(\w+)$/.exec(variable) ?? [];
  if (kind === "HEADER") return `the header ${name.toLowerCase().replaceAll("_", "-")} of the target file`;
  return `credentials.${name.toLowerCase()} of the target file`;
};

const quoted = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;

/** Double quotes let the shell put in the values of variables. */
const argument = (text: string) => (/\$[A-Z]/.test(text) ? `"${text.replace(/["\\`]/g, "\\$&")}"` : quoted(text));

const curlOf = ({ method, url, headers, body }: SentRequest): string => {
  const { "user-agent": _agent, "x-request-id": _id, ...told } = headers;
  const head = Object.entries(told).map(([name, value]) => `-H ${argument(`${name}: ${value}`)}`);
  const data = body === undefined ? [] : [`-d ${quoted(body)}`];
  return ["curl -sS -i", `-X ${method}`, quoted(url), ...head, ...data].join(" ");
};

const stepsOf = (answers: readonly Answer[]): CrashStep[] => {
  const id = answers.find(({ testCall }) => testCall.route === "keys.create")?.fields.id;
  return answers.map(({ request, outcome, testCall: { route } }) => ({
    ...request,
    // Each run gets another id for the key that it creates.
    url: typeof id === "string" ? request.url.replaceAll(encodeURIComponent(id), "$CREATED_ID") : request.url,
    got: maskSecrets(outcome),
    ...(route === "keys.create" ? { saves: { $CREATED_KEY: "key", $CREATED_ID: "id" } } : {}),
  }));
};

export const crashOf = (
  rule: Rule,
  failure: Failure,
  /** `allowed`: the permissions that the user gave; a replay needs the same. */
  run: { seed: number; target: string; allowed: Permission[] },
) => {
  const steps = stepsOf(failure.steps);
  const curl = steps.map(curlOf).join("\n");
  const used = [...new Set(curl.match(/\$[A-Z][A-Z0-9_]*/g) ?? [])];
  return {
    schema: CRASH_SCHEMA as typeof CRASH_SCHEMA,
    ...{ rule: rule.id, level: rule.level as string, title: rule.title },
    ...run,
    steps,
    expected: failure.expected,
    got: maskSecrets(failure.got),
    /** Outcomes that pass for the last call; `null` if one call alone does not decide. */
    accepts: failure.accepts === null ? null : [...failure.accepts],
    variables: Object.fromEntries(used.map((variable) => [variable, meaningOf(variable)])),
    curl,
  };
};

/** Throws `UserFileError` if it is no valid crash file. */
export const readCrash = async (file: string): Promise<Crash> => {
  let crash: Partial<Crash> | null;
  try {
    crash = readUserJson(file, RECORDED_BOUNDS) as Partial<Crash> | null;
  } catch (error) {
    throw new UserFileError(`${file}: expected a crash file in JSON, but ${(error as Error).message}`);
  }
  if (crash?.schema !== CRASH_SCHEMA || typeof crash.rule !== "string" || !Array.isArray(crash.allowed))
    throw new UserFileError(
      `${file}: expected a crash file, with "schema": "${CRASH_SCHEMA}", a rule and what was allowed`,
    );
  return crash as Crash;
};
