/** What to do about an answer that a role should not get: the first mistakes in a target file, by the answer that they bring. */
import { outcomeOf } from "../../contract/refusals.ts";

/** `where`: the credential's place in the file, such as `credentials.publishable`. `origin`: what the file says there. */
export const refusalAdvice = (outcome: string, where: string, origin: string | undefined): string => {
  const named = origin === undefined ? "" : ` (the file says ${origin})`;
  const advice: Readonly<Record<string, string>> = {
    [outcomeOf("unauthenticated")]:
      `does this deployment know the key at ${where}? It may be another environment's, revoked, or expired`,
    [outcomeOf("session_origin_mismatch")]: `write an origin that is in the key's allowlist at ${where}.origin${named}`,
    [outcomeOf("origin_required")]:
      "the Origin header did not arrive, or the key is a publishable one: does a proxy take the header away?",
    [outcomeOf("ip_not_allowed")]: "put this machine's address into the key's IP allowlist, or name a key without one",
    [outcomeOf("insufficient_scope")]: `the key lacks a scope: name one with ai, design and maps at ${where}`,
    [outcomeOf("product_not_allowed")]: `the key is restricted to some products: name an unrestricted one at ${where}`,
    [outcomeOf("tier_capability_not_allowed")]: `its organization is not on Pro: name a key of one that is at ${where}`,
    [outcomeOf("server_key_in_browser")]: "an Origin header arrived: do transport.headers or a proxy add one?",
    [outcomeOf("publishable_key_required")]: `name a publishable key (svc_pk_...) at ${where}`,
    [outcomeOf("publishable_requires_session")]: `name a server key (svc_sk_...) at ${where}`,
    [outcomeOf("sessions_disabled")]:
      "the deployment issues no sessions now: enable them, or leave publishable roles out",
    [outcomeOf("sessions_not_configured")]:
      "the deployment cannot issue sessions: configure them, or leave publishable roles out",
  };
  const known = advice[outcome];
  if (known !== undefined) return known;
  if (/^(?:edge )?(?:404|405|410)\b/.test(outcome)) {
    return "nothing of the API is there: does base_url include the version segment (v1)?";
  }
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
