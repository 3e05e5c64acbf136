/**
 * Administrators' tokens, tried without making or changing anything: the list of keys where the deployment has one, else a
 * change of a key that nobody has. A made-up token is asked with first: a call that it gets the same answer to shows nothing.
 */
import { ADMIN_ROLES, type AdminRole, type Target } from "../../target/target.ts";
import type { CredentialRef } from "../../workload/step.ts";
import { failedTrial, isPassing, unanswered } from "./advice.ts";
import { type Finding, finding } from "./finding.ts";
import { type Answered, isAdmitted, type SingleCalls } from "./single-calls.ts";

const UNKNOWN_KEY = "00000000-0000-4000-8000-000000000000";

const WAYS = {
  list: {
    words: "reads the list of keys",
    ask: (calls: SingleCalls, credential: CredentialRef): Promise<Answered> =>
      calls.ask({ route: "keys.create", credential, via: "authorization" }, { method: "GET", body: undefined }),
  },
  change: {
    words: "may ask for a change of a key",
    ask: (calls: SingleCalls, credential: CredentialRef): Promise<Answered> =>
      calls.ask({
        route: "keys.update",
        credential,
        via: "authorization",
        path: `/shared-api/api-keys/${UNKNOWN_KEY}`,
        body: { text: JSON.stringify({ products: ["tile"] }), is: "ok" },
      }),
  },
} as const;

/** `stranger`: the outcome of the made-up token. */
type Way = { readonly by: keyof typeof WAYS; readonly stranger: string };

const isRefused = (outcome: string): boolean => outcome === "401" || outcome.startsWith("403");

/** The call that distinguishes a good token from a made-up one; a sentence where none does. */
const findWay = async (calls: SingleCalls, writes: boolean): Promise<Way | string> => {
  const { answer, line } = await WAYS.list.ask(calls, { as: "garbage" });
  if (answer.status === null || isPassing(line.outcome)) return `key management answers ${line.outcome}`;
  if (isRefused(line.outcome)) return { by: "list", stranger: line.outcome };
  if (!writes) return "the deployment has no list of keys, and permits.writes does not allow another way";
  const { outcome } = (await WAYS.change.ask(calls, { as: "garbage" })).line;
  if (isRefused(outcome)) return { by: "change", stranger: outcome };
  return `key management answers ${outcome} to a made-up token as well: does key_management_url fit?`;
};

const judge = (role: AdminRole, { by, stranger }: Way, sent: Answered): Finding => {
  const { outcome } = sent.line;
  if (sent.answer.status === null) return unanswered(role, sent);
  if (isPassing(outcome)) return finding("warn", role, `${outcome}: not to be seen now`, "run doctor again later");
  if (outcome === "401" || outcome === stranger) {
    const todo = `has the token at credentials.${role} ended, or is it of another identity provider?`;
    return finding("wrong", role, `expected to be known to key management; got ${outcome}`, todo);
  }
  const said = isAdmitted(outcome) ? WAYS[by].words : "its token is accepted";
  return finding("ok", role, `${said} (${outcome} for a call that changes nothing)`);
};

/** Two calls, and two for each role at the most. */
export const tryAdmins = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const roles = ADMIN_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  if (roles.length === 0) return [];
  const writes = target.permits?.writes === true;
  const failed = (role: AdminRole, error: unknown): Finding => failedTrial(role, `credentials.${role}`, error);
  const findings: Finding[] = [];
  let way: Way | string;
  try {
    way = await findWay(calls, writes);
  } catch (error) {
    return roles.map((role) => failed(role, error));
  }
  for (const role of roles) {
    const credential: CredentialRef = { as: "admin", of: `role:${role}` };
    try {
      // Also where it is not tried: a reference that leads nowhere is a mistake.
      await calls.book.fetch(credential);
      if (typeof way === "string") {
        findings.push(finding("skipped", role, `not tried: ${way}`));
        continue;
      }
      let sent = await WAYS[way.by].ask(calls, credential);
      // The list may be refused to strangers and not be there for anybody.
      if (/^(?:edge )?40[45]/.test(sent.line.outcome) && way.by === "list" && writes) {
        way = { ...way, by: "change" };
        sent = await WAYS.change.ask(calls, credential);
      }
      findings.push(judge(role, way, sent));
    } catch (error) {
      findings.push(failed(role, error));
    }
  }
  return findings;
};
