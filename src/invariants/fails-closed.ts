/**
 * Without the limiter the answer is `limiter_unavailable`; without the key service 503, and not 401, for which a customer would
 * replace a good key (items 153, 213, 216; B4). Judges calls sent and decided while a fault took effect; cached records may serve
 * for the revocation budget. A foreign deployment's broken link may serve only some replicas: there, calls that got through
 * beside refused ones are a doubt.
 */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { meterOf } from "./evidence/charges.ts";
import { isReference } from "./evidence/deployment.ts";
import { FaultWindows, LIMITER_ANSWERS, letsNothingThrough } from "./evidence/fault-windows.ts";
import { earliestUs, isAdmitted, isDefinite, Settling } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

const ENOUGH = 10;
const MARGIN_US = 50_000;
const WITHOUT_RECORD = new Set(["503", "401", "429 b2b_overloaded"]);
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
    /** Calls that the broken dependency should have stopped. */
    const through = { limiter: new Evidence(), keys: new Evidence() };
    const mayBeHalfBroken = !ours && facts.limits.replicas !== 1;
    /** Calls that needed the broken dependency, and those refused for it. */
    const judged = { limiter: 0, keys: 0 };
    const refused = { limiter: 0, keys: 0 };

    const judgeLimiter = (call: CallLine): void => {
      const around = windows.around(call, "limiter");
      if (around.length === 0) return;
      const broken = around.find(letsNothingThrough);
      if (around.some(({ tookEffect }) => tookEffect) && !WITHOUT_LIMITER.test(call.outcome)) judged.limiter += 1;
      if (call.outcome === "429 limiter_unavailable") refused.limiter += 1;
      if (broken === undefined || call.outcome === "429 limiter_unavailable") return;
      // The specification does not say which routes are limited; map loads are, because an allowance needs a count.
      else if (
        ours ? isAdmitted(call) || LIMITER_ANSWERS.has(call.outcome) : isAdmitted(call) && meterOf(call) === "map_loads"
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
      // A14: a foreign session token may carry all that its checks need.
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
          // With both broken, calls fail at the key record first.
          const masked = link === "limiter" && links.length === 2 && judged.keys >= ENOUGH;
          if (judged[link] < ENOUGH && !masked) {
            const why = `${judged[link]} calls needed the ${link} while it was broken; 10 are needed`;
            // An experiment must produce such calls; drawn faults may be too short.
            return facts.incidental === true ? unseen(why) : inconclusive(why);
          }
        }
        return passed(`${judged.limiter + judged.keys} calls that met the fault were answered as they must be`);
      },
    };
  },
};
