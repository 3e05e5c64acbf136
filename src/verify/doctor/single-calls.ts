/** The few calls that `doctor` makes: counted, kept for what else they show (clock, echo), and advice on refusals. */
import { openApiClient, type Sent } from "../../client/api-client.ts";
import { networkAdvice } from "../../client/network-errors.ts";
import { outcomeOf, REFUSAL_BY_OUTCOME, type RefusalName } from "../../contract/refusals.ts";
import { createRunClock } from "../../supervision/waiting.ts";
import { createSecrets, SecretError, type Secrets } from "../../target/secrets.ts";
import { CredentialMissingError, type StatedCredential } from "../../target/stated-credentials.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { type Step, type StepWish, stepOf } from "../../workload/step.ts";
import { CannotJudge, skipped } from "../checks.ts";
import { type Budget, createBudget } from "../planning/needs.ts";
import { wait } from "../sending/throttle.ts";
import { type Finding, finding } from "./finding.ts";

/** The most calls of one `doctor` run, whatever the file names: too few to be load. */
export const CALLS_MAX = 60;

/** Answers that a gateway may give to a single call although the API is well. The call is made again, and the second answer counts. */
const STRAY = /^edge (?:429|50[234]|52\d)$/;
const TRIES_AGAIN = 3;
const AGAIN_MS = 1_000;

const PATIENCE = { callMs: 15_000, firstEventMs: 10_000, idleMs: 10_000 };

/** `id`: the `X-Request-Id` that was sent. `tookMs`: from the first byte out to the end of the answer. */
export type Answered = Sent & { id: string; tookMs: number };

export type SingleCalls = Awaited<ReturnType<typeof openSingleCalls>>;

/** Throws `SecretError` if a secret of the connection settings cannot be read. */
export const openSingleCalls = async (parts: { target: Target; secrets: Secrets; budget: Budget }) => {
  const { target, secrets, budget } = parts;
  const view = viewOf(target);
  const answers: Answered[] = [];
  let made = 0;
  const idPrefix = `doctor.${Math.floor(Math.random() * 2 ** 32).toString(36)}`;
  // The clock counts from 1970, so that it can be compared with an answer's `Date`.
  const clock = createRunClock(0);
  const by = { stage: "doctor", driver: "doctor" };
  const onLine = (): void => {};
  const client = await openApiClient({ target, secrets, view, clock, timeouts: PATIENCE, idPrefix, ...by, onLine });
  const take = (calls: number): void => {
    if (made + calls > CALLS_MAX) throw skipped("budget-spent", `doctor makes at most ${CALLS_MAX} calls`);
    budget.take("requests", calls);
    made += calls;
  };
  const once = async (step: Step, keepEvents: boolean): Promise<Answered> => {
    // The credential is read first: a call whose credential cannot be read is neither sent nor counted.
    await client.book.fetch(step.credential);
    take(1);
    const id = `${idPrefix}.${made}`;
    const sent = await client.send(step, { id, ...by, intendedUs: clock.nowUs() }, { keepEvents });
    const answered = { ...sent, id, tookMs: (sent.answer.doneUs - sent.answer.sentUs) / 1000 };
    answers.push(answered);
    return answered;
  };
  let triesLeft = TRIES_AGAIN;
  const send = async (step: Step, keepEvents: boolean): Promise<Answered> => {
    const sent = await once(step, keepEvents);
    if (triesLeft === 0 || made === CALLS_MAX || !STRAY.test(sent.line.outcome)) return sent;
    triesLeft -= 1;
    await wait(AGAIN_MS);
    return once(step, keepEvents);
  };
  return {
    ...{ view, book: client.book, answers: answers as readonly Answered[], close: client.close },
    left: (): number => Math.min(CALLS_MAX - made, budget.left("requests")),
    /** Counts calls that go elsewhere, such as to a control plane. Throws `CannotJudge` if too few are left. */
    take,
    /** Throws `CannotJudge` if no call is left, or what reading the credential throws. `change` overrides the step. */
    ask: (wish: StepWish, change: Partial<Step> = {}) => send({ ...stepOf(view, 0, wish), ...change }, false),
    /** Like `ask`, for a stream: keeps its events; `n` selects one of the route's bodies. */
    stream: (wish: StepWish, n: number) => send(stepOf(view, n, wish), true),
  };
};

/** Makes calls to an address of no target file. `folder`: base of the transport's `file:` references. */
export const withSingleCalls = async <T>(target: Target, folder: string, use: (calls: SingleCalls) => Promise<T>) => {
  const calls = await openSingleCalls({ target, secrets: createSecrets(folder), budget: createBudget(target, false) });
  return use(calls).finally(calls.close);
};

export const headerOf = ({ answer }: Sent, name: string): string | undefined => {
  const value = answer.headers[name];
  return Array.isArray(value) ? value.join(", ") : value;
};

export const isAdmitted = (outcome: string): boolean => /^2\d\d$/.test(outcome);

/** Refusals for overload, rate or outage are temporary and say nothing about a key. */
export const isPassing = (outcome: string): boolean => REFUSAL_BY_OUTCOME.get(outcome)?.retryable === true;

/** The finding for an answer that shows nothing about its credential, else `null`. */
export const showsNothing = (name: string, { line, answer }: Answered): Finding | null => {
  const { outcome, error = answer.ended } = line;
  const busy = `${outcome}: it cannot be checked now, because the deployment is busy`;
  if (isPassing(outcome)) return finding("warn", name, busy, "run doctor again later");
  if (answer.status !== null) return null;
  const { means, todo } = networkAdvice(error);
  return finding("silent", name, `no answer (${error}): ${means}`, todo);
};

/** Advice by refusal, on common mistakes in a target file. `WHERE`: the credential's place. `NAMED`: its origin. */
// biome-ignore format: a table
const ADVICE: Partial<Readonly<Record<RefusalName, string>>> = {
  unauthenticated: "does this deployment know the key at WHERE? It may be another environment's, revoked, or expired; or a gateway in front wants a credential of its own (transport.headers)",
  session_origin_mismatch: "write an origin that is in the key's allowlist at WHERE.originNAMED",
  origin_required: "the Origin header did not arrive, or the key is a publishable one: does a proxy take the header away?",
  ip_not_allowed: "put this machine's address into the key's IP allowlist, or name a key without one",
  insufficient_scope: "the key lacks a scope: name one with ai, design and maps at WHERE",
  product_not_allowed: "the key is restricted to some products: name an unrestricted one at WHERE",
  tier_capability_not_allowed: "its organization is not on Pro: name a key of one that is at WHERE",
  server_key_in_browser: "an Origin header arrived: do transport.headers or a proxy add one?",
  publishable_key_required: "name a publishable key (svc_pk_...) at WHERE",
  publishable_requires_session: "name a server key (svc_sk_...) at WHERE",
  sessions_disabled: "the deployment issues no sessions now: enable them, or leave publishable roles out",
  sessions_not_configured: "the deployment cannot issue sessions: configure them, or leave publishable roles out",
};
const ADVICE_OF = new Map(Object.entries(ADVICE).map(([name, text]) => [outcomeOf(name as RefusalName), text]));

/** Advice on an answer in a content coding that no call of ours asks for. */
export const UNCODED =
  "have the proxy in front of the API send answers uncoded to callers that ask for it (Accept-Encoding: identity)";

export const refusalAdvice = (outcome: string, where: string, origin?: string): string => {
  const named = origin === undefined ? "" : ` (the file says ${origin})`;
  const known = ADVICE_OF.get(outcome);
  if (known !== undefined) return known.replace("WHERE", () => where).replace("NAMED", () => named);
  if (/^(?:edge )?(?:404|405|410)\b/.test(outcome))
    return "nothing of the API is there: does base_url include the version segment (v1)?";
  if (/^edge /.test(outcome)) return "a balancer, firewall or proxy answered, not the API: look there";
  if (/^5/.test(outcome)) return "the deployment failed: look into its logs";
  return `is the key at ${where} the one that this role means?`;
};

/** Names a role by its name and a tenant's key by its organization and kind. */
export const titleOf = ({ of, kind }: StatedCredential): string =>
  of.slice(of.indexOf(":") + 1) + (of.startsWith("tenant:") ? `, ${kind}` : "");

/** Returns what `look` finds, or why it cannot be tried: an unreadable credential, a missing origin, no calls left. */
export const tried = async (name: string, where: string, look: () => Promise<Finding[]>): Promise<Finding[]> => {
  try {
    return await look();
  } catch (error) {
    if (error instanceof SecretError) return [finding("wrong", name, error.message)];
    if (error instanceof CannotJudge) return [finding("skipped", name, `not tried: ${error.message}`)];
    if (!(error instanceof CredentialMissingError)) throw error;
    const text = `expected an origin at ${where}.origin, got none`;
    return [finding("wrong", name, text, "write one that is in the key's allowlist")];
  }
};
