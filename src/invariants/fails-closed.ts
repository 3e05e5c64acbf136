/**
 * When the limiter cannot be asked, letting calls in gives the product away; when the key service cannot be asked, saying
 * 401 to a good key makes a customer replace it (items 153, 213, 216; B4). So the answer is `limiter_unavailable`, or
 * 503, and nothing that the platform cannot know. Only calls that were sent and decided while a fault was seen to bite are
 * judged; a cached key record may serve on for the revocation budget.
 *
 * Other callers change nothing of this. But on somebody else's deployment of several replicas (or of a number that is not
 * stated) the broken link may be the way of some of them only: calls that got through beside others that did not are a
 * doubt there and no proof.
 */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { FaultWindows, letsNothingThrough } from "./evidence/fault-windows.ts";
import { isReference } from "./evidence/is-reference.ts";
import { meterOf } from "./evidence/metered.ts";
import { earliestUs, isAdmitted, isDefinite, Settling } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

const ENOUGH = 10;
const MARGIN_US = 50_000;
/** Answers that only the limiter can have given. */
const LIMITERS = new Set(["429 rate_limited", "429 map_load_quota_exceeded", "429 map_load_hard_stop"]);
/** Answers that need no key record. */
const WITHOUT_RECORD = new Set(["503", "401", "429 b2b_overloaded"]);
/** Refused before the limiter is asked. */
const WITHOUT_LIMITER = /^(401|403|422|503|429 (b2b_overloaded|org_overloaded|tile_access_restricted))/;
const KEYED = new Set(["publishable", "server", "session"]);

export const failsClosed: Invariant = {
  id: "fails-closed",
  level: "must",
  spec: [142, 153, 213, 216],
  statement: "without its limiter the platform answers limiter_unavailable, without its key service 503",
  judge(facts) {
    if (!facts.faults) return skipped("a fault of the limiter or the key service in this stage");
    const ours = isReference(facts);
    const budgetMs = facts.limits.revocation_budget_ms;
    const windows = new FaultWindows();
    const evidence = new Evidence();
    /** Calls that got through, by the link that should have kept them out. */
    const through = { limiter: new Evidence(), keys: new Evidence() };
    const mayBeHalfBroken = !ours && facts.limits.replicas !== 1;
    /** Calls that needed the dependency while it was broken, and how many of them were refused for it. */
    const judged = { limiter: 0, keys: 0 };
    const refused = { limiter: 0, keys: 0 };

    const judgeLimiter = (call: CallLine): void => {
      const around = windows.around(call, "limiter");
      if (around.length === 0) return;
      const broken = around.find(letsNothingThrough);
      if (around.some(({ tookEffect }) => tookEffect) && !WITHOUT_LIMITER.test(call.outcome)) judged.limiter += 1;
      if (call.outcome === "429 limiter_unavailable") refused.limiter += 1;
      if (broken === undefined || call.outcome === "429 limiter_unavailable") return;
      // Which routes are limited at all is not stated; map loads are, because an allowance needs a count.
      else if (
        ours ? isAdmitted(call) || LIMITERS.has(call.outcome) : isAdmitted(call) && meterOf(call) === "map_loads"
      ) {
        through.limiter.breach(call.id, `${call.outcome} on ${call.route} while the limiter was "${broken.fault}"`);
      }
    };

    const judgeKeys = (call: CallLine): void => {
      const around = windows.around(call, "keys").filter(({ tookEffect }) => tookEffect);
      if (around.length === 0) return;
      const { state, credential = "none" } = call.facts ?? {};
      if (call.outcome === "401" && state === "valid" && KEYED.has(credential)) {
        evidence.breach(
          call.id,
          `401 for a valid ${credential} credential while the key service was "${around[0]?.fault}"`,
        );
        return;
      }
      const broken = around.find(letsNothingThrough);
      if (KEYED.has(credential)) judged.keys += 1;
      if (call.outcome === "503") refused.keys += 1;
      if (broken === undefined || budgetMs === undefined) return;
      if (earliestUs(call) < broken.fromUs + budgetMs * 1000 + MARGIN_US) return;
      // A14: elsewhere a session may carry all that it needs.
      const unknowable = ours ? !WITHOUT_RECORD.has(call.outcome) : isAdmitted(call) && credential !== "session";
      if (!unknowable) return;
      through.keys.breach(call.id, `${call.outcome} on ${call.route}, from a key record older than ${budgetMs} ms`);
    };

    const settling = new Settling((call) => {
      judgeLimiter(call);
      judgeKeys(call);
    });
    return {
      see(line) {
        settling.reach(line);
        if (line.type === "fault") windows.see(line);
        if (line.type !== "call" || line.route === "-" || !isDefinite(line)) return;
        if (routeOf(line.route).surface !== "management") settling.add(line);
      },
      end() {
        settling.finish();
        if (evidence.count > 0) return failed("the platform did not fail closed", evidence);
        for (const link of ["limiter", "keys"] as const) {
          if (through[link].count === 0) continue;
          if (!mayBeHalfBroken || refused[link] === 0) {
            return failed("the platform did not fail closed", through[link]);
          }
          const why = `some calls got through and ${refused[link]} did not: the fault may stand before some replicas only`;
          return inconclusive(why, through[link].first);
        }
        const links = (["limiter", "keys"] as const).filter((link) =>
          windows.all.some((window) => window.link === link),
        );
        if (links.length === 0) return inconclusive("no fault of the limiter or the key service was injected");
        for (const link of links) {
          const bit = windows.all.some((window) => window.link === link && window.tookEffect);
          if (!bit) return inconclusive(`the fault of the ${link} took no effect`);
          // Both at once: without a key record there is nothing to ask the limiter about.
          const masked = link === "limiter" && links.length === 2 && judged.keys >= ENOUGH;
          if (judged[link] < ENOUGH && !masked) {
            const why = `${judged[link]} calls needed the ${link} while it was broken; 10 are needed`;
            // An experiment has to bring them about; of faults that were drawn some are short.
            return facts.incidental === true ? unseen(why) : inconclusive(why);
          }
        }
        return passed(`${judged.limiter + judged.keys} calls that met the fault were answered as they must be`);
      },
    };
  },
};
