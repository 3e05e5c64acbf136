/**
 * A fault must end with its heal: dead pooled connections or a rush on the key service turn a minute's fault into an outage
 * (items 213, 216). Judged from the recovery deadline on. Strays are forgiven. A foreign service may always refuse a few per
 * cent, so there the interval of the share must lie above that and above the share before the fault. A stampede of look-ups is
 * judged only where nobody else calls. On a stalled machine a sound limiter answers too late, so refusals beside a run of
 * admitted calls are a doubt.
 */
import type { CallLine } from "../history/line.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { wilsonInterval } from "../history/statistics/statistics.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import { isReference } from "./evidence/deployment.ts";
import { LIMITER_ANSWERS, recoveryUs } from "./evidence/fault-windows.ts";
import { earliestUs, isAdmitted, isDefinite, latestUs, Settling } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

const STRAY_SHARE = 0.02;
const STRAYS = 3;
/** Usual share of such refusals, if a higher one was not seen before the fault. */
const USUAL_SHARE = 0.05;
const ENOUGH_HANGING = 5;
/** Calls in a row after the heal that show recovery. */
const ENOUGH_IN_A_ROW = 10;

const isBroken = ({ outcome }: CallLine): boolean => outcome === "429 limiter_unavailable" || outcome === "503";

/** Look-ups that caching explains: one for each key, replica and revocation budget, and for each call whose look-up failed. `null`: unknown. */
const lookupsAllowed = (span: { from_us: number; to_us: number }, facts: StageFacts, keys: number, failing: number) => {
  const { revocation_budget_ms: budgetMs, replicas } = facts.limits;
  if (budgetMs === undefined || replicas === undefined || keys === 0) return null;
  const times = Math.ceil((span.to_us - span.from_us) / (budgetMs * 1000)) + 2;
  return keys * replicas * times + failing;
};

export const recovers: Invariant = {
  id: "recovers",
  level: "must",
  spec: [142, 213, 216, 219],
  statement: "from the recovery deadline after a heal on, calls get through the limiter and the key service again",
  judge(facts) {
    if (!facts.faults) return skipped("a fault that was healed in this stage");
    const deadlineUs = recoveryUs(facts);
    /** Spans from a recovery deadline to the next fault. */
    const well: { fromUs: number; toUs: number }[] = [];
    const broken = new Evidence();
    const keys = new Set<string>();
    const failing = (facts.key_lookups ?? []).map(() => 0);
    let nameless = false;
    let through = 0;
    let throughSince = 0;
    let inARow = 0;
    const hung = new Evidence();
    let edge = 0;
    /** Calls before the first fault, and those refused as if a dependency were broken. */
    const before = { calls: 0, broken: 0 };
    let firstFaultUs = Number.POSITIVE_INFINITY;

    /** `aheadUs`: extends the spans back, as far as the heal. */
    const isWell = (call: CallLine, aheadUs = 0): boolean =>
      well.some(({ fromUs, toUs }) => earliestUs(call) >= fromUs - aheadUs && latestUs(call) < toUs);
    const isThrough = (call: CallLine): boolean => isAdmitted(call) || LIMITER_ANSWERS.has(call.outcome);
    const settling = new Settling((call) => {
      if (latestUs(call) < firstFaultUs && (isBroken(call) || isThrough(call))) {
        before.calls += 1;
        if (isBroken(call)) before.broken += 1;
      }
      if (isWell(call, deadlineUs)) {
        if (isBroken(call)) throughSince = 0;
        else if (isThrough(call)) throughSince += 1;
        inARow = Math.max(inARow, throughSince);
      }
      if (!isWell(call)) return;
      if (isBroken(call)) {
        broken.breach(call.id, `${call.outcome} on ${call.route} after the recovery deadline`);
      } else if (isThrough(call)) through += 1;
      else if (call.outcome.startsWith("edge ")) edge += 1;
      else if (!isDefinite(call) && call.aborted !== true) hung.breach(call.id, "no answer");
    });
    const seeKey = (call: CallLine): void => {
      if (call.bucket !== undefined) keys.add(call.bucket);
      else if (isAdmitted(call)) nameless = true;
      const looksUp = call.outcome === "503" || call.outcome === "401" || !isDefinite(call);
      if (!looksUp) return;
      (facts.key_lookups ?? []).forEach(({ from_us, to_us }, at) => {
        if (latestUs(call) >= from_us && earliestUs(call) <= to_us) failing[at] = (failing[at] ?? 0) + 1;
      });
    };
    /** Whether the refusals are more than this deployment's usual strays. */
    const isOutage = (): boolean => {
      const judged = through + broken.count + hung.count;
      if (isReference(facts)) {
        return broken.count > STRAY_SHARE * judged && (broken.count >= STRAYS || through === 0);
      }
      if (broken.count < STRAYS) return false;
      const usual = before.calls === 0 ? 0 : (before.broken + 1) / (before.calls + 2);
      const least = wilsonInterval(broken.count, through + broken.count)?.low ?? 0;
      return least > Math.max(USUAL_SHARE, usual);
    };
    /** Why the machine may have caused the refusals; empty if the calls show no recovery. */
    const ofTheMachine = (): string =>
      facts.host === undefined || inARow < ENOUGH_IN_A_ROW
        ? ""
        : standstillDoubts(facts.host, facts.limits.limiter_budget_ms).join("; ");
    const stampede = (): Evidence | null => {
      if (!facts.exclusive) return null;
      const evidence = new Evidence();
      (facts.key_lookups ?? []).forEach((span, at) => {
        const allowed = nameless ? null : lookupsAllowed(span, facts, keys.size, failing[at] ?? 0);
        if (allowed === null || span.count <= allowed) return;
        evidence.breach(
          `look-ups from ${span.from_us} us`,
          `${span.count} look-ups of ${keys.size} keys; ${allowed} at most are needed`,
        );
      });
      return evidence.count > 0 ? evidence : null;
    };
    return {
      see(line) {
        settling.reach(line);
        if (line.type === "fault" && line.phase === "healed") {
          well.push({ fromUs: line.at_us + deadlineUs, toUs: Number.POSITIVE_INFINITY });
        }
        if (line.type === "fault") firstFaultUs = Math.min(firstFaultUs, line.at_us);
        if (line.type === "fault" && line.phase === "injecting") {
          for (const span of well) span.toUs = Math.min(span.toUs, line.at_us);
        }
        if (line.type !== "call") return;
        seeKey(line);
        settling.add(line);
      },
      end() {
        settling.finish();
        if (well.length === 0) return inconclusive("no fault was healed");
        if (isOutage()) {
          const machine = ofTheMachine();
          if (machine === "") return failed("the platform stayed broken after the heal", broken);
          const reason = `${machine}; ${broken.count} calls were refused after the recovery deadline, and ${inARow} in a row got through`;
          return inconclusive(reason, broken.first);
        }
        if (through === 0 && hung.count >= ENOUGH_HANGING) {
          hung.first = `${hung.count} calls after the recovery deadline, and not one came through`;
          return failed("the platform stayed broken after the heal", hung);
        }
        const stamped = stampede();
        if (stamped !== null) return failed("the key service got too many look-ups after the heal", stamped);
        if (through === 0 && edge > 0) {
          return inconclusive(`a gateway gave ${edge} answers in place of the platform after the heal`);
        }
        if (through === 0) return inconclusive("no call came after the recovery deadline");
        const strays = broken.count === 0 ? "" : `, ${broken.count} strays aside`;
        return passed(`${through} calls got through after the recovery deadline${strays}`);
      },
    };
  },
};
