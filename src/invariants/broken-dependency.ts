/** Judges what callers get while the limiter or the key service is broken, and after it is healed. */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { wilsonInterval } from "../history/statistics/statistics.ts";
import { standstillDoubts } from "../history/time-doubts.ts";
import { meterOf } from "./evidence/charges.ts";
import { FaultWindows, LIMITER_ANSWERS, letsNothingThrough, REFUSAL_OF, recoveryUs } from "./evidence/fault-windows.ts";
import { earliestUs, isAdmitted, isDefinite, isReference, isServerError, latestUs } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

const LINKS = ["limiter", "keys"] as const;
const ENOUGH = 10;
const MARGIN_US = 50_000;
const WITHOUT_RECORD = new Set(["503", "401", "429 b2b_overloaded"]);
const WITHOUT_LIMITER = /^(401|403|422|503|429 (b2b_overloaded|org_overloaded|tile_access_restricted))/;
const KEYED = new Set(["publishable", "server", "session"]);
const NOT_NEEDED =
  "either they are let through without it (by a cache, or because it fails open), or what was broken is not on their way; the log of the API tells";

/**
 * Calls are refused while a dependency is broken, and not by a 401, on which a customer would replace a good key (items 153, 213,
 * 216; B4), nor by a server error, on which he would report a bug. Cached key records may serve for the revocation budget. A foreign fault may break only some replicas, so calls
 * admitted beside refused ones are inconclusive there.
 */
export const failsClosed: Judge = (facts, settling) => {
  if (!facts.faults) return skipped("not-seen", "a fault of the limiter or the key service in this stage");
  const ours = isReference(facts);
  const budgetMs = facts.limits.revocation_budget_ms;
  const windows = new FaultWindows();
  const evidence = new Evidence();
  const mayBeHalfBroken = !ours && facts.limits.replicas !== 1;
  /**
   * `through`: calls admitted without the dependency; `judged`: calls that needed it; `refused`: calls refused for it;
   * `admitted`: calls admitted while it could not answer, whether they needed it or not.
   */
  const limiter = { link: "limiter", through: new Evidence(), judged: 0, refused: 0, admitted: 0 };
  const keys = { ...limiter, link: "keys", through: new Evidence() };
  const errors = new Evidence();

  const judgeErrors = (call: CallLine): void => {
    if (!isServerError(call)) return;
    const around = LINKS.flatMap((link) => windows.around(call, link)).find(({ tookEffect }) => tookEffect);
    if (around === undefined) return;
    errors.breach(call.id, `${call.outcome} on ${call.route} while the ${around.link} was "${around.fault}"`);
  };

  const judgeLimiter = (call: CallLine): void => {
    const around = windows.around(call, "limiter");
    if (around.length === 0) return;
    const broken = around.find(letsNothingThrough);
    if (around.some(({ tookEffect }) => tookEffect) && !WITHOUT_LIMITER.test(call.outcome)) limiter.judged += 1;
    if (call.outcome === REFUSAL_OF.limiter) limiter.refused += 1;
    if (isAdmitted(call) && broken !== undefined) limiter.admitted += 1;
    // The specification does not say which routes are limited; map loads are, because an allowance needs a count. Its checks of an
    // exchange name no rate, and the allowance that they name may be kept with the keys.
    const needsIt = ours
      ? isAdmitted(call) || LIMITER_ANSWERS.has(call.outcome)
      : isAdmitted(call) && call.route !== "sdk.sessions" && meterOf(call) === "map_loads";
    if (broken === undefined || !needsIt) return;
    limiter.through.breach(call.id, `${call.outcome} on ${call.route} while the limiter was "${broken.fault}"`);
  };

  const judgeKeys = (call: CallLine): void => {
    const around = windows.around(call, "keys").filter(({ tookEffect }) => tookEffect);
    if (around.length === 0) return;
    const { state, credential = "none" } = call.facts ?? {};
    if (call.outcome === "401" && state === "valid" && KEYED.has(credential)) {
      const during = `while the key service was "${around[0]?.fault}"`;
      evidence.breach(call.id, `401 for a valid ${credential} credential ${during}`);
      return;
    }
    const broken = around.find(letsNothingThrough);
    if (KEYED.has(credential)) keys.judged += 1;
    if (call.outcome === REFUSAL_OF.keys) keys.refused += 1;
    if (isAdmitted(call) && broken !== undefined) keys.admitted += 1;
    if (broken === undefined || budgetMs === undefined) return;
    if (earliestUs(call) < broken.fromUs + budgetMs * 1000 + MARGIN_US) return;
    // A14: a foreign session token may carry all that its checks need.
    const unknowable = ours ? !WITHOUT_RECORD.has(call.outcome) : isAdmitted(call) && credential !== "session";
    const got = `${call.outcome} on ${call.route}, from a key record older than ${budgetMs} ms`;
    if (unknowable) keys.through.breach(call.id, got);
  };

  return {
    see(line) {
      if (line.type === "fault") windows.see(line);
      if (line.type !== "call" || line.route === "-" || !isDefinite(line)) return;
      if (routeOf(line.route).surface !== "management") settling.add(line);
    },
    settled(call) {
      judgeLimiter(call);
      judgeKeys(call);
      judgeErrors(call);
    },
    end() {
      if (evidence.count > 0) return failed("the platform did not fail closed", evidence);
      // A few may have another cause than the fault.
      if (errors.count >= ENOUGH) return failed("calls that met the fault were answered with a server error", errors);
      for (const { through, refused } of [limiter, keys]) {
        if (through.count === 0) continue;
        if (!mayBeHalfBroken || refused === 0) return failed("the platform did not fail closed", through);
        const why = `some calls got through and ${refused} did not: the fault may stand before some replicas only`;
        return inconclusive("ambiguous", why, through.first);
      }
      const windowsOf = (link: string) => windows.all.filter((window) => window.link === link);
      const links = [limiter, keys].filter(({ link }) => windowsOf(link).length > 0);
      if (links.length === 0)
        return inconclusive("fault-without-effect", "no fault of the limiter or the key service was injected");
      for (const { link, judged, admitted, refused } of links) {
        const bit = windowsOf(link).some(({ tookEffect }) => tookEffect);
        if (!bit) return inconclusive("fault-without-effect", `the fault of the ${link} took no effect`);
        // With both broken, calls fail at the key record first.
        const masked = link === "limiter" && links.length === 2 && keys.judged >= ENOUGH;
        const why = `${judged} calls needed the ${link} while it was broken; 10 are needed`;
        // A planned experiment must produce such calls; randomly drawn faults may be too short.
        const isDrawn = facts.incidental === true;
        if (judged < ENOUGH && !masked) return isDrawn ? unseen(why) : inconclusive("too-few-calls", why);
        // The deployment may admit what it should refuse, or these calls may not need the part that was broken.
        const open = `${admitted} calls were admitted while the ${link} could not answer, and none was refused for it: ${NOT_NEEDED}`;
        if (!ours && refused === 0 && admitted >= ENOUGH)
          return isDrawn ? unseen(open) : inconclusive("ambiguous", open);
      }
      return passed(`${limiter.judged + keys.judged} calls that met the fault were answered as they must be`);
    },
  };
};

const STRAY_SHARE = 0.02;
const STRAYS = 3;
/** A share of such refusals that is normal, also if fewer were seen before the fault. */
const USUAL_SHARE = 0.05;
const ENOUGH_HANGING = 5;
/** Calls in a row after the heal that show recovery. */
const ENOUGH_IN_A_ROW = 10;
const STAYED_BROKEN = "the platform stayed broken after the heal";

const isBroken = ({ outcome }: CallLine): boolean => outcome === REFUSAL_OF.limiter || outcome === REFUSAL_OF.keys;
const isThrough = (call: CallLine): boolean => isAdmitted(call) || LIMITER_ANSWERS.has(call.outcome);

/**
 * Dead pooled connections, or a rush on the key service, turn a minute's fault into an outage (items 213, 216). Stray refusals
 * are forgiven; on a foreign deployment their share must be certainly above the usual. A stampede of look-ups is judged only
 * if nobody else calls. On a stalled machine a healthy limiter answers too late, so refusals beside a run of admitted calls
 * are inconclusive.
 */
export const recovers: Judge = (facts, settling) => {
  if (!facts.faults) return skipped("not-seen", "a fault that was healed in this stage");
  const deadlineUs = recoveryUs(facts);
  const well: { fromUs: number; toUs: number }[] = [];
  const broken = new Evidence();
  const keys = new Set<string>();
  /** Look-ups by span of time; `failing`: calls in the span whose look-up may have failed. */
  const lookups = (facts.key_lookups ?? []).map((span) => ({ ...span, failing: 0 }));
  let nameless = false;
  let through = 0;
  let throughSince = 0;
  let inARow = 0;
  const hung = new Evidence();
  let edge = 0;
  /** Calls before the first fault, and how many of them were refused as if a dependency were broken. */
  const before = { calls: 0, broken: 0 };
  let firstFaultUs = Number.POSITIVE_INFINITY;

  /** Whether the whole call lies after a recovery deadline; `aheadUs` makes that deadline earlier. */
  const isWell = (call: CallLine, aheadUs = 0): boolean =>
    well.some(({ fromUs, toUs }) => earliestUs(call) >= fromUs - aheadUs && latestUs(call) < toUs);
  const seeKey = (call: CallLine): void => {
    if (call.bucket !== undefined) keys.add(call.bucket);
    else if (isAdmitted(call)) nameless = true;
    if (call.outcome !== "503" && call.outcome !== "401" && isDefinite(call)) return;
    for (const span of lookups) {
      if (latestUs(call) >= span.from_us && earliestUs(call) <= span.to_us) span.failing += 1;
    }
  };
  const isOutage = (): boolean => {
    const judged = through + broken.count + hung.count;
    const isEnough = broken.count >= STRAYS;
    if (isReference(facts)) return broken.count > STRAY_SHARE * judged && (isEnough || through === 0);
    const usual = before.calls === 0 ? 0 : (before.broken + 1) / (before.calls + 2);
    const least = wilsonInterval(broken.count, through + broken.count)?.low ?? 0;
    return isEnough && least > Math.max(USUAL_SHARE, usual);
  };
  /** Doubts about the machine, as text; empty if the calls show no recovery. */
  const ofTheMachine = (): string =>
    facts.host === undefined || inARow < ENOUGH_IN_A_ROW
      ? ""
      : standstillDoubts(facts.host, facts.limits.limiter_budget_ms).join("; ");
  /** Spans with more look-ups than one per key, replica and revocation budget, plus one per call whose look-up failed. */
  const stampede = (): Evidence => {
    const evidence = new Evidence();
    const { revocation_budget_ms: budgetMs, replicas } = facts.limits;
    if (!facts.exclusive || nameless || keys.size === 0 || !budgetMs || replicas === undefined) return evidence;
    for (const { from_us, to_us, count, failing } of lookups) {
      const allowed = keys.size * replicas * (Math.ceil((to_us - from_us) / (budgetMs * 1000)) + 2) + failing;
      const got = `${count} look-ups of ${keys.size} keys; ${allowed} at most are needed`;
      if (count > allowed) evidence.breach(`look-ups from ${from_us} us`, got);
    }
    return evidence;
  };
  return {
    see(line) {
      if (line.type === "fault") {
        const { phase, at_us: atUs } = line;
        firstFaultUs = Math.min(firstFaultUs, atUs);
        if (phase === "healed") well.push({ fromUs: atUs + deadlineUs, toUs: Number.POSITIVE_INFINITY });
        if (phase === "injecting") for (const span of well) span.toUs = Math.min(span.toUs, atUs);
      }
      if (line.type !== "call") return;
      seeKey(line);
      settling.add(line);
    },
    settled(call) {
      const [isRefused, isServed] = [isBroken(call), isThrough(call)];
      if (latestUs(call) < firstFaultUs && (isRefused || isServed)) {
        before.calls += 1;
        if (isRefused) before.broken += 1;
      }
      if (isWell(call, deadlineUs)) {
        throughSince = isRefused ? 0 : throughSince + Number(isServed);
        inARow = Math.max(inARow, throughSince);
      }
      if (!isWell(call)) return;
      if (isRefused) broken.breach(call.id, `${call.outcome} on ${call.route} after the recovery deadline`);
      else if (isServed) through += 1;
      else if (call.outcome.startsWith("edge ")) edge += 1;
      else if (!isDefinite(call) && call.aborted !== true) hung.breach(call.id, "no answer");
    },
    end() {
      if (well.length === 0) return inconclusive("fault-without-effect", "no fault was healed");
      if (isOutage()) {
        const machine = ofTheMachine();
        if (machine === "") return failed(STAYED_BROKEN, broken);
        const seen = `${broken.count} calls were refused after the recovery deadline, and ${inARow} in a row got through`;
        return inconclusive("machine-disturbed", `${machine}; ${seen}`, broken.first);
      }
      if (through === 0 && hung.count >= ENOUGH_HANGING) {
        hung.first = `${hung.count} calls after the recovery deadline, and not one came through`;
        return failed(STAYED_BROKEN, hung);
      }
      const stamped = stampede();
      if (stamped.count > 0) return failed("the key service got too many look-ups after the heal", stamped);
      const instead = `a gateway gave ${edge} answers in place of the platform after the heal`;
      if (through === 0 && edge > 0) return inconclusive("edge-answered", instead);
      if (through === 0) return inconclusive("too-few-calls", "no call came after the recovery deadline");
      const strays = broken.count === 0 ? "" : `, ${broken.count} strays aside`;
      return passed(`${through} calls got through after the recovery deadline${strays}`);
    },
  };
};
