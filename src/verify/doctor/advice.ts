/** What to do about an answer that a credential should not get: the first mistakes in a target file, by the answer they bring. */
import { CredentialMissingError } from "../../client/credential-book.ts";
import { networkAdvice } from "../../client/network-errors.ts";
import { outcomeOf, type RefusalName } from "../../contract/refusals.ts";
import { SecretError } from "../../target/secrets.ts";
import { BudgetSpentError } from "../planning/needs.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, CallsSpentError } from "./single-calls.ts";

/** `WHERE` and `NAMED` stand for the credential's place in the file and for the origin that it has there. */
// biome-ignore format: a table
const ADVICE: Partial<Readonly<Record<RefusalName, string>>> = {
  unauthenticated: "does this deployment know the key at WHERE? It may be another environment's, revoked, or expired",
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

export const refusalAdvice = (outcome: string, where: string, origin: string | undefined): string => {
  const named = origin === undefined ? "" : ` (the file says ${origin})`;
  const known = ADVICE_OF.get(outcome);
  if (known !== undefined) return known.replace("WHERE", () => where).replace("NAMED", () => named);
  if (/^(?:edge )?(?:404|405|410)\b/.test(outcome))
    return "nothing of the API is there: does base_url include the version segment (v1)?";
  if (/^edge /.test(outcome)) return "a balancer, firewall or proxy answered, not the API: look there";
  if (/^5/.test(outcome)) return "the deployment failed: look into its logs";
  return `is the key at ${where} the one that this role means?`;
};

/** Overload, rate and outage pass: they say nothing about a key. */
const PASSING = new Set(
  (["b2b_overloaded", "org_overloaded", "limiter_unavailable", "rate_limited", "key_service_unavailable"] as const).map(
    outcomeOf,
  ),
);
export const isPassing = (outcome: string): boolean => PASSING.has(outcome);

export const unanswered = (name: string, { line, answer }: Answered, code = ""): Finding => {
  const { means, todo } = networkAdvice(line.error ?? answer.ended);
  return finding("silent", name, `no answer${code}: ${means}`, todo);
};

export const failedTrial = (name: string, where: string, error: unknown): Finding => {
  if (error instanceof SecretError) return finding("wrong", name, error.message);
  if (error instanceof CredentialMissingError) {
    const text = `expected an origin at ${where}.origin, got none`;
    return finding("wrong", name, text, "write one that is in the key's allowlist");
  }
  if (error instanceof BudgetSpentError || error instanceof CallsSpentError)
    return finding("skipped", name, `not tried: ${error.message}`);
  throw error;
};
