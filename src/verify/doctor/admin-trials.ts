/**
 * Administrators' tokens, tried without making or changing anything: the list of keys where the deployment has one, else a
 * change of a key that nobody has. What a made-up token brings is the measure: an answer that anybody gets shows nothing.
 */

import { networkAdvice } from "../../client/network-errors.ts";
import { ADMIN_ROLES, type AdminRole, type Target } from "../../target/target.ts";
import { type CredentialRef, type Step, stepOf } from "../../workload/step.ts";
import { type Finding, finding } from "./finding.ts";
import { failedTrial } from "./key-trial.ts";
import { isPassing } from "./refusal-advice.ts";
import { type Answered, isAdmitted, type SingleCalls } from "./single-calls.ts";

const NOBODYS_KEY = "00000000-0000-4000-8000-000000000000";

const listStep = (calls: SingleCalls, credential: CredentialRef): Step => {
  const { body: _body, ...step } = stepOf(calls.view, 0, { route: "keys.create", credential, via: "authorization" });
  return { ...step, method: "GET" };
};

const changeStep = (calls: SingleCalls, credential: CredentialRef): Step =>
  stepOf(calls.view, 0, {
    route: "keys.update",
    credential,
    via: "authorization",
    path: `/shared-api/api-keys/${NOBODYS_KEY}`,
    body: { text: JSON.stringify({ products: ["tile"] }), is: "ok" },
  });

type Way = { readonly step: typeof listStep; readonly stranger: Answered; readonly words: string };

/** Which call distinguishes a good token from a made-up one; a sentence where none does. */
const findWay = async (calls: SingleCalls, writes: boolean): Promise<Way | string> => {
  const nobody: CredentialRef = { as: "garbage" };
  const list = await calls.call(listStep(calls, nobody));
  if (list.answer.status === null || isPassing(list.line.outcome)) return `key management answers ${list.line.outcome}`;
  if (list.line.outcome === "401" || list.line.outcome.startsWith("403")) {
    return { step: listStep, stranger: list, words: "reads the list of keys" };
  }
  if (!writes) return "the deployment has no list of keys, and permits.writes does not allow another way";
  const change = await calls.call(changeStep(calls, nobody));
  if (change.line.outcome === "401" || change.line.outcome.startsWith("403")) {
    return { step: changeStep, stranger: change, words: "may ask for a change of a key" };
  }
  return `key management answers ${change.line.outcome} to a made-up token as well: does key_management_url fit?`;
};

const judge = (role: AdminRole, way: Way, sent: Answered): Finding => {
  const { outcome, error } = sent.line;
  if (sent.answer.status === null) {
    const { means, todo } = networkAdvice(error ?? sent.answer.ended);
    return finding("silent", role, `no answer: ${means}`, todo);
  }
  if (isPassing(outcome)) return finding("warn", role, `${outcome}: not to be seen now`, "run doctor again later");
  if (outcome === "401" || outcome === way.stranger.line.outcome) {
    const todo = `has the token at credentials.${role} ended, or is it of another identity provider?`;
    return finding("wrong", role, `expected to be known to key management; got ${outcome}`, todo);
  }
  const said = isAdmitted(outcome) ? way.words : "its token is accepted";
  return finding("ok", role, `${said} (${outcome} for a call that changes nothing)`);
};

/** Two calls, and two for each role at the most. */
export const tryAdmins = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const roles = ADMIN_ROLES.filter((role) => target.credentials?.[role] !== undefined);
  if (roles.length === 0) return [];
  const findings: Finding[] = [];
  let way: Way | string;
  try {
    way = await findWay(calls, target.permits?.writes === true);
  } catch (error) {
    return roles.map((role) => failedTrial(role, `credentials.${role}`, error));
  }
  for (const role of roles) {
    const credential: CredentialRef = { as: "admin", of: `role:${role}` };
    try {
      // Also where it is not tried: a reference that leads nowhere is a mistake.
      await calls.book.fetch(credential);
      if (typeof way === "string") findings.push(finding("skipped", role, `not tried: ${way}`));
      else {
        let sent = await calls.call(way.step(calls, credential));
        // The list may be refused to strangers and not be there for anybody.
        if (/^(?:edge )?40[45]/.test(sent.line.outcome) && way.step === listStep && target.permits?.writes === true) {
          way = { ...way, step: changeStep };
          sent = await calls.call(changeStep(calls, credential));
        }
        findings.push(judge(role, way, sent));
      }
    } catch (error) {
      findings.push(failedTrial(role, `credentials.${role}`, error));
    }
  }
  return findings;
};
