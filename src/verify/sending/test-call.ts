/** One call in terms of the specification, the request made from it, and the request's form without secrets. */
import type { OutgoingRequest } from "../../client/send-request.ts";
import type { CallFacts } from "../../contract/call-facts.ts";
import type { Product, RouteName } from "../../contract/routes.ts";
import type { AdminRole, KeyRole } from "../../target/roles.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import * as steps from "../../workload/step.ts";

export type Form = "bearer" | "x-api-key" | "lower-bearer" | "both" | "twice";
export const FORMS: readonly Form[] = ["bearer", "x-api-key"];

export type TestCall = {
  /** `-`: an unspecified path. */
  readonly route: RouteName | "-";
  readonly credential: steps.CredentialRef;
  readonly origin: steps.OriginRef;
  readonly product?: Product;
  readonly form?: Form;
  /** `bytes` are sent in place of `text`, and shown as `shown` in a crash file. */
  readonly body?: {
    readonly text: string | undefined;
    readonly is: "malformed" | "ok";
    readonly bytes?: Uint8Array;
    readonly shown?: string;
  };
  readonly method?: OutgoingRequest["method"];
  readonly path?: string;
  /** Sent in place of the named credential; a crash file shows `variable`. */
  readonly secret?: { readonly value: string; readonly variable: string };
  readonly originValue?: string;
  /** Names in lower case; an empty value removes the header. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly facts?: Partial<CallFacts>;
  /** The answer is not specified: the history line holds nothing that an invariant could judge. */
  readonly open?: true;
  /** Reads the whole stream with the time of each piece; otherwise only to its first event. */
  readonly wholeStream?: true;
  readonly leaveAfterMs?: number;
  /** Sent once: a transient answer is final. */
  readonly once?: true;
  /** Not paced: part of a permitted burst. */
  readonly atOnce?: true;
  /** Sent even after a stop and beyond the budget, to undo something. */
  readonly anyway?: true;
  /** Called just before the call leaves, to write the journal or to start the next call. */
  readonly beforeSent?: () => void;
  /** Awaited even after a stop, because what it creates has to be known. */
  readonly toTheEnd?: true;
  readonly what?: string;
};

export type SentRequest = { method: string; url: string; headers: Record<string, string>; body?: string };

export const role = <N extends string>(name: N): `role:${N}` => `role:${name}`;

const variableOf = (ref: steps.CredentialRef): string => {
  if (!("of" in ref)) return `$${ref.as.toUpperCase()}`;
  const name = ref.of.toUpperCase().replace(/^\w+:/, "").replace(/\W+/g, "_");
  if (ref.as === "session") return `$SESSION_${name}_${ref.product.toUpperCase()}`;
  return `$${ref.as === "admin" ? "TOKEN" : "KEY"}_${name}`;
};

type More = Partial<TestCall>;
type Route = TestCall["route"];

/** A path that is no route of any API. */
export const NO_SUCH_PATH = "/floodgate-no-such-path";

const callBy = (credential: steps.CredentialRef, origin: steps.OriginRef, route: Route, more: More): TestCall => ({
  ...{ route, credential, origin },
  ...more,
});
export const asNobody = (route: Route, more: More = {}): TestCall => callBy({ as: "none" }, "none", route, more);
export const asPublishable = (route: Route, more: More = {}, of: KeyRole = "publishable"): TestCall =>
  callBy({ as: "publishable", of: role(of) }, "listed", route, more);
export const asServer = (route: Route, more: More = {}, of: KeyRole = "server"): TestCall =>
  callBy({ as: "server", of: role(of) }, "none", route, more);
export const inSession = (product: Product, route: Route, more: More = {}, of: KeyRole = "publishable"): TestCall =>
  callBy({ as: "session", of: role(of), product }, "listed", route, more);
export const asAdmin = (admin: AdminRole, route: Route, more: More = {}): TestCall =>
  callBy({ as: "admin", of: role(admin) }, "none", route, more);
export const exchangeCall = (of: KeyRole, origin: steps.OriginRef, product: Product, more: More = {}): TestCall =>
  asPublishable("sdk.sessions", { origin, product, ...more }, of);
export const mint = (of: KeyRole, product: Product, more: More = {}) => exchangeCall(of, "listed", product, more);

export const body = (text: string, is: "ok" | "malformed" = "ok"): NonNullable<TestCall["body"]> => ({ text, is });
export const json = (value: unknown, is: "ok" | "malformed" = "ok") => body(JSON.stringify(value), is);

const CREDENTIAL_WORDS: Readonly<Record<steps.CredentialRef["as"], string>> = {
  none: "no credential",
  garbage: "a credential of no known form",
  unknown: "a credential that nobody issued",
  publishable: "publishable key",
  server: "server key",
  session: "session",
  admin: "administrator's token",
};

const ORIGIN_WORDS: Readonly<Record<steps.OriginRef, string>> = {
  none: "no Origin",
  listed: "an allowlisted Origin",
  foreign: "a foreign Origin",
  null: "Origin: null",
};

/** A call in words: method and path, caller, Origin. */
export const describe = ({ testCall, request }: { testCall: TestCall; request: SentRequest }): string => {
  const { credential, origin, originValue, product, form, what } = testCall;
  const whose = "of" in credential ? ` (${credential.of.replace(/^role:/, "")})` : "";
  const kind = `${CREDENTIAL_WORDS[credential.as]}${credential.as === "session" ? ` ${credential.product}` : ""}`;
  return [
    `${request.method} ${new URL(request.url).pathname}`,
    what ?? `${kind}${whose}`,
    originValue === undefined ? ORIGIN_WORDS[origin] : `Origin ${originValue}`,
    ...(product === undefined ? [] : [`product ${product}`]),
    ...(form === "x-api-key" ? ["in X-Api-Key"] : []),
  ].join(", ");
};

export const stepOfTestCall = (view: TargetView, n: number, call: TestCall): steps.Step => {
  const { route, credential, origin, product, body: asked, path, form } = call;
  const step = steps.stepOf(view, n, {
    ...{ route: route === "-" ? "design.styles" : route, credential, origin, path, body: asked },
    via: form === "x-api-key" ? "x-api-key" : "authorization",
    ...(product === undefined ? {} : { product }),
  });
  const facts = { ...step.facts, ...call.facts };
  const isKnown = facts.state === undefined || facts.state === "valid";
  return { ...step, route, facts, org: isKnown ? step.org : "-" };
};

/**
 * `shared`: headers of the target file, names in lower case. `isH2`: HTTP/2 forbids blanks at the ends of a value
 * (RFC 9113, section 8.2.1), which an HTTP/1.1 server removes.
 */
type Parts = {
  step: steps.Step;
  id: string;
  idPrefix: string;
  secret: string | null;
  origin?: string;
  shared: Readonly<Record<string, string>>;
  isH2: boolean;
};

export const buildRequest = (places: steps.Places, call: TestCall, parts: Parts) => {
  const { step, id, idPrefix, secret, origin: listedOrigin, shared, isH2 } = parts;
  const method = call.method ?? step.method;
  const asked = step.origin === "listed" && listedOrigin === undefined ? { ...step, origin: "foreign" as const } : step;
  const headersWith = (credential: string | null, common: Readonly<Record<string, string>>): Record<string, string> => {
    const headers: Record<string, string> = {
      ...steps.headersOf(asked, { id, credential, listedOrigin, shared: common }),
    };
    if (step.origin !== "none" && listedOrigin !== undefined) headers.origin = listedOrigin;
    if (credential !== null && call.form === "lower-bearer") headers.authorization = `bearer ${credential}`;
    if (credential !== null && call.form === "both") headers["x-api-key"] = credential;
    // Sends the header twice: the names differ only in case.
    if (credential !== null && call.form === "twice") headers.Authorization = `Bearer ${credential}`;
    for (const [name, value] of Object.entries(call.headers ?? {})) {
      if (value === "") delete headers[name];
      else headers[name] = name === "x-request-id" ? `${idPrefix}-${value}` : isH2 ? value.trim() : value;
    }
    return headers;
  };
  const variable = call.secret?.variable ?? variableOf(step.credential);
  const hidden = Object.keys(shared).map((name) => [name, `$HEADER_${name.toUpperCase().replace(/\W/g, "_")}`]);
  const url = steps.urlOf(places, step);
  const { origin, pathname, search } = new URL(url);
  const bodies = <T>(replaced: T | undefined) => (step.body === undefined ? {} : { body: replaced ?? step.body });
  const headers = Object.entries(headersWith(secret, shared)).flat();
  const shownHeaders = headersWith(secret === null ? null : variable, Object.fromEntries(hidden));
  const shown: SentRequest = { method, url, headers: shownHeaders, ...bodies(call.body?.shown) };
  return { request: { origin, path: pathname + search, method, headers, ...bodies(call.body?.bytes) }, shown };
};
