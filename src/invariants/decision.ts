/** Judges each call by its caller's facts: admission, revocation, session lifetime; and that no secret is written down. */
import { findSecrets } from "../contract/credentials.ts";
import { admissionOf } from "../contract/refusals.ts";
import { routeOf } from "../contract/routes.ts";
import { type CallLine, type Line, lineTimeUs, type Span } from "../history/line.ts";
import type { StageFacts } from "../history/run-document.ts";
import { known } from "../history/statistics/statistics.ts";
import {
  CAPABILITY,
  either,
  isOpenHere,
  isOthersRefusal,
  lacksOf,
  legalAnswers,
  mayBeRefusalUnder200,
} from "./evidence/legal-answers.ts";
import { earliestUs, isAdmitted, isDefinite, isUnnamed, latestUs, MARK_MARGIN_US } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** The assumed revocation budget, if none is stated. */
const UNKNOWN_BUDGET_MS = 60_000;
const MARGIN_US = 100_000;

const mayChangeKeys = (call: CallLine): boolean =>
  (call.route === "keys.update" || call.route === "keys.delete") && (isAdmitted(call) || !isDefinite(call));

/** Tracks changes of key records: for one revocation budget, a call may be answered by the old or new state (item 142). */
const recordChanges = ({ limits: { revocation_budget_ms: budgetMs } }: StageFacts) => {
  const spansOf = new Map<string, Span[]>();
  const budgetUs = (budgetMs ?? UNKNOWN_BUDGET_MS) * 1000 + MARGIN_US;
  // Without a stated budget the deployment is foreign, and its credentials are older than the run.
  const youthUs = budgetMs === undefined ? 0 : budgetUs;
  let startUs = Number.POSITIVE_INFINITY;
  const addSpan = (org: string, fromUs: number, toUs: number): void => {
    const spans = known(spansOf, org, () => []);
    const last = spans.at(-1);
    // Overlapping spans are merged, which bounds the state.
    if (last !== undefined && fromUs <= last.toUs) last.toUs = Math.max(last.toUs, toUs);
    else spans.push({ fromUs, toUs });
  };
  return {
    see: (line: Line): void => {
      if (startUs === Number.POSITIVE_INFINITY) startUs = lineTimeUs(line);
      if (line.type === "mark" && line.org !== undefined)
        addSpan(line.org, line.at_us - MARK_MARGIN_US, line.at_us + budgetUs);
      if (line.type === "call" && mayChangeKeys(line)) addSpan(line.org, earliestUs(line), latestUs(line) + budgetUs);
    },
    /** Whether a known change may affect this call; an unknown organization may be any. */
    touches: (call: CallLine): boolean =>
      [...spansOf].some(
        ([org, spans]) =>
          (org === call.org || isUnnamed(org) || isUnnamed(call.org)) &&
          spans.some(({ fromUs, toUs }) => latestUs(call) >= fromUs && earliestUs(call) <= toUs),
      ),
    /** Whether a change just before the stage may not have arrived yet. */
    isYoung: (call: CallLine): boolean => earliestUs(call) < startUs + youthUs,
  };
};

/**
 * The order of checks is specified for the exchange; for other routes it is this project's choice. Answers due to overload
 * and faults are judged by other invariants.
 */
export const firstFailingCheckDecides: Judge = (facts, settling) => {
  const ours = facts.reference === true;
  const changes = recordChanges(facts);
  const evidence = new Evidence();
  let judged = 0;
  return {
    see(line, alike = 1) {
      changes.see(line);
      if (line.type !== "call" || !isDefinite(line)) return;
      if (!ours && isOthersRefusal(line)) return;
      const legal = legalAnswers(line, { ours, stateUnsettled: false });
      if (legal === null) return;
      judged += alike;
      // Held back until every change of a record that could explain it is known.
      if (!legal.has(admissionOf(line.outcome))) settling.add(line);
    },
    settled(call) {
      const { route, outcome, facts: f } = call;
      const legal = legalAnswers(call, { ours, stateUnsettled: changes.isYoung(call) });
      if (legal === null || f === undefined || legal.has(admissionOf(outcome)) || changes.touches(call)) return;
      const known = [`credential ${f.credential}`, f.state, `origin ${f.origin}`, f.product, `body ${f.body}`];
      const its = known.filter((fact) => fact !== undefined).join(", ");
      evidence.breach(call.id, `${route} answered ${outcome} where only ${[...legal].join(" | ")} fit (${its})`);
    },
    end() {
      if (evidence.count > 0) return failed("a call was not answered by the first check that it fails", evidence);
      if (judged === 0) return unseen("no call came with the facts to judge its answer by");
      return passed(`${judged} calls were answered by the first check that they fail`);
    },
  };
};

/** Whether key and tier together admit the call; `null`: unknown, or not this judge's question. */
const isCapable = (call: CallLine, ours: boolean): boolean | null => {
  const { facts, route: name } = call;
  if (facts === undefined || name === "-" || facts.state !== "valid") return null;
  if (!ours && mayBeRefusalUnder200(call)) return null;
  const { surface } = routeOf(name);
  const { credential } = facts;
  const [isServer, isSession] = [credential === "server", credential === "session"];
  const isExchange = surface === "exchange" && credential === "publishable";
  if (!isExchange && !(surface === "runtime" && (isServer || isSession))) return null;
  const { scope, product, tier } = lacksOf(call, facts, ours);
  // Only the reference platform is held to this project's reading.
  const isOpen = isOpenHere(facts, tier) || (isSession && product !== false);
  const lacks = !ours && isOpen ? undefined : either(scope, product, tier);
  return lacks === undefined ? null : !lacks;
};

/**
 * A call needs both the stored capability and the tier: if one sufficed, features would be given away, and a stale tier
 * would keep granting them after a downgrade (specification 2.3; items 46, 74, 75, 156). Judges only calls whose facts decide.
 */
export const admissionIsStoredAndTier: Judge = (facts, settling) => {
  const ours = facts.reference === true;
  const changes = recordChanges(facts);
  const evidence = new Evidence();
  let kept = 0;
  return {
    see(line) {
      changes.see(line);
      const capable = line.type === "call" ? isCapable(line, ours) : null;
      if (line.type !== "call" || capable === null) return;
      const refused = CAPABILITY.includes(line.outcome);
      if (capable ? refused : isAdmitted(line)) settling.add(line);
      else if (!capable && refused) kept += 1;
    },
    settled(call) {
      if (changes.touches(call)) return;
      const { credential, product, tier, scopes = [] } = call.facts as NonNullable<CallLine["facts"]>;
      const what = `${credential} on ${call.route}${product === undefined ? "" : ` for ${product}`}`;
      evidence.breach(call.id, `${call.outcome} for ${what}, scopes [${scopes.join(" ")}], tier ${tier}`);
    },
    end() {
      const broken = "a call was admitted or refused against stored capability and tier";
      if (evidence.count > 0) return failed(broken, evidence);
      if (kept === 0) return unseen("no call that lacks a capability was seen, so none could be admitted wrongly");
      return passed(`${kept} calls without the capability were refused for lacking it, and no call that has it was`);
    },
  };
};

/** Key records may be one revocation budget old, also while the key service is down (items 61, 142, 153, 164; A14). */
export const revokedStaysOut: Judge = (facts, settling) => {
  const ours = facts.reference === true;
  const changes = recordChanges(facts);
  const evidence = new Evidence();
  let keptOut = 0;
  return {
    see(line) {
      changes.see(line);
      if (line.type !== "call" || line.facts === undefined || !isDefinite(line)) return;
      const { state, credential } = line.facts;
      if (state !== "revoked" && state !== "expired") return;
      // A14: elsewhere sessions of a revoked key may live until they expire.
      if (!ours && ((credential === "session" && state === "revoked") || mayBeRefusalUnder200(line))) return;
      settling.add(line);
    },
    settled(call) {
      const { state, credential } = call.facts as NonNullable<CallLine["facts"]>;
      // The key record holds the expiry; a revocation takes time to arrive.
      if (state === "revoked" && (changes.isYoung(call) || changes.touches(call))) return;
      if (!isAdmitted(call)) keptOut += 1;
      else evidence.breach(call.id, `${call.outcome} on ${call.route} for a ${state} ${credential} credential`);
    },
    end() {
      if (evidence.count > 0) return failed("a revoked or expired credential was admitted", evidence);
      if (keptOut === 0)
        return unseen("no call came with a credential that had been revoked or expired for long enough");
      return passed(`${keptOut} calls with revoked or expired credentials were refused`);
    },
  };
};

const MAX_S = 1800;

const lifetimeFault = ({ expires_in: seconds, facts, ...line }: CallLine): string | null => {
  if (typeof seconds !== "number") return `expires_in is ${JSON.stringify(seconds)}, not a number`;
  if (seconds <= 0 || seconds > MAX_S) return `expires_in is ${seconds}`;
  if (!("product" in line) || facts?.product === undefined || line.product === facts.product) return null;
  return `asked for ${facts.product}, minted for ${JSON.stringify(line.product)}`;
};

/** A session token cannot be revoked, so its life bounds the harm (specification 2.1, 8; items 24, 32, 33, 224). */
export const sessionLifetimeIsBounded: Judge = () => {
  const evidence = new Evidence();
  let judged = 0;
  return {
    see(line, alike = 1) {
      if (line.type !== "call" || line.route !== "sdk.sessions" || !isAdmitted(line)) return;
      // Drivers that do not keep the body leave this field out.
      if (!("expires_in" in line)) return;
      judged += alike;
      const fault = lifetimeFault(line);
      if (fault !== null) evidence.breach(line.id, fault);
    },
    end() {
      if (evidence.count > 0) return failed("a session was minted outside its bounds", evidence);
      if (judged === 0) return unseen("no minted session was seen with its lifetime");
      return passed(`${judged} sessions were minted within 30 minutes`);
    },
  };
};

export const secretsStaySecret: Judge = ({ texts }) => {
  if (texts === undefined) return skipped("not-stated", "the texts written by the target's processes");
  const evidence = new Evidence();
  const names = new Set<string>();
  let characters = 0;
  for (const { name, text } of texts) {
    names.add(name);
    characters += text.length;
    for (const masked of findSecrets(text)) evidence.breach(name, `${masked} stands unmasked in ${name}`);
  }
  if (evidence.count > 0) return failed("a credential was written down", evidence);
  if (characters === 0) return inconclusive("state-unknown", "nothing was written, so nothing was searched");
  return passed(`${characters} characters in ${names.size} texts hold no credential`);
};
