/** Stages about broken dependencies: answers, charges, and recovery after the heal. */

import { readLedger } from "../../client/control-planes.ts";
import { faultTeller, type LinkFault, makeFault } from "../../faults/link-faults.ts";
import type { StageFacts } from "../../history/run-document.ts";
import { pause, waitUntil } from "../../supervision/waiting.ts";
import { httpProbe, type LinkSeen, observeLink } from "../../tools/link-probe.ts";
import type { StandInLink } from "../../tools/stand-in-proxy.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Step } from "../../workload/step.ts";
import * as benches from "../stage-bench.ts";
import { callsOf, paid } from "./calls.ts";

const PROBE_MS = 300;
/** A whole link answers within this time, on a busy machine too. */
const WHOLE_PROBE_MS = 3_000;
const DEADLINE_S = 20;

type Fault = "refused" | "reply-lost" | "request-lost";

const faultOf = (name: Fault): LinkFault => makeFault(name, { budgetMs: benches.LIMITER_BUDGET_MS });

const linkOf = ({ links, stage }: benches.Bench, name: "limiter" | "keys"): StandInLink => {
  if (links === null) throw new Error(`${stage} needs links that can be broken`);
  return links[name];
};

/** Injects a fault of `faults/link-faults.ts`, waits until it shows, plays `during` and heals, as in a suite. */
const whileBroken = async (
  bench: benches.Bench,
  name: "limiter" | "keys",
  faultName: Fault,
  during: () => Promise<unknown>,
): Promise<void> => {
  const { stage, clock } = bench;
  const [link, fault] = [linkOf(bench, name), faultOf(faultName)];
  const tell = faultTeller(stage, name, fault, () => clock.nowUs(), bench.add);
  const until = async (what: string, probeMs: number, shows: (seen: LinkSeen) => boolean): Promise<void> => {
    const look = (): Promise<LinkSeen> => observeLink(httpProbe(new URL(link.url()).host, "/health", probeMs));
    const { met } = await waitUntil(async () => shows(await look()), { forMs: 1_000 * DEADLINE_S, pollMs: 10 });
    if (!met) throw new Error(`${stage}: the link to the ${name} did not get ${what} within ${DEADLINE_S} s`);
  };

  bench.tell({ faults: true });
  tell("injecting");
  await fault.put(link);
  await until(fault.name, PROBE_MS, fault.shows);
  tell("injected", { took_effect: true });
  await during();
  tell("healing");
  // Connections that lost a request stay open, so that a client that forgets to close them is found.
  if (faultName === "request-lost") link.toxics = [];
  else await fault.take(link);
  await until("whole again", WHOLE_PROBE_MS, ({ ended }) => ended === "complete");
  tell("healed");
};

const TENANTS = 3;
/** More than judges need. */
const CALLS = 14;
const RECORD_MARGIN_MS = 100;
/** Within the limiter's budget, so that callers still wait when the link is healed. */
const CHARGED_MS = 0.7 * benches.LIMITER_BUDGET_MS;

const mixed = (view: TargetView, count: number): Step[] => [
  ...callsOf(view, "maps.loads", Math.ceil(count / 2)),
  ...callsOf(view, "design.styles", Math.floor(count / 2)),
];

/** Calls after the recovery deadline. */
const afterRecovery = async ({ view, sendAll }: benches.Bench): Promise<void> => {
  await pause(benches.RECOVERY_DEADLINE_MS + 20);
  await sendAll(mixed(view, CALLS), 4);
};

/** A stage whose links can be broken; a few calls come before `play`. */
const faulty = (
  play: (bench: benches.Bench) => Promise<void>,
  more: Partial<benches.DeploymentOptions> = {},
): benches.MiniStage => ({
  options: { tenants: paid(TENANTS), breakable: true, ...more },
  play: async (bench) => {
    await bench.sendAll(mixed(bench.view, 6), 3);
    await play(bench);
  },
});

export const limiterRefused = faulty(async (bench) => {
  const { view, sendAll } = bench;
  await whileBroken(bench, "limiter", "refused", () => sendAll(mixed(view, CALLS + 4), 6));
  await afterRecovery(bench);
});

/** The map loads that all tenants have used, by the limiter's store. */
const loadsUsed = async ({ running, view }: benches.Bench): Promise<number> => {
  const limiter = running.administration?.limiter;
  if (limiter === undefined) throw new Error("expected a limiter of this stage's own");
  let sum = 0;
  for (const { org } of view.tenants) sum += await limiter.used(org, "map_loads");
  return sum;
};

/** Sends loads until the limiter has charged them, while their callers still wait. */
const chargedAndWaiting = async (bench: benches.Bench): Promise<{ answers: Promise<unknown> }> => {
  const before = await loadsUsed(bench);
  const answers = bench.sendAll(callsOf(bench.view, "maps.loads", 6));
  await waitUntil(async () => (await loadsUsed(bench)) >= before + 6, { forMs: CHARGED_MS, pollMs: 5 });
  return { answers };
};

/** The limiter takes charges, its replies are lost, and it is healed while some calls still wait. */
export const limiterReplyLost = faulty(async (bench) => {
  const { view, sendAll } = bench;
  let waiting: Promise<unknown> | undefined;
  await whileBroken(bench, "limiter", "reply-lost", async () => {
    await sendAll(mixed(view, CALLS + 4), CALLS + 4);
    waiting = (await chargedAndWaiting(bench)).answers;
  });
  await waiting;
  await afterRecovery(bench);
});

const FORGETFUL_ENDS_MS = 1_200;
/** The refunds come at once when the limiter is back. A machine that stands still for seconds must not end the API before. */
const REFUNDS_WITHIN_MS = 30_000;

/** Replies of the limiter are lost, then it is away, and the API is asked to end before it can refund. */
export const restartUnsettled = faulty(
  async (bench) => {
    const { running, silence, tell } = bench;
    const limiter = linkOf(bench, "limiter");
    await faultOf("reply-lost").put(limiter);
    const { answers } = await chargedAndWaiting(bench);
    await limiter.setEnabled(false);
    await answers;
    silence();
    const ended = running.api?.close();
    // The mutant has ended by then; the healthy API still retries its refunds.
    await Promise.race([ended, pause(FORGETFUL_ENDS_MS)]);
    limiter.toxics = [];
    await limiter.setEnabled(true);
    await ended;
    tell({ ledger: await readLedger(bench.target.control?.limiter as string, "mutants.") });
  },
  { stopDeadlineMs: REFUNDS_WITHIN_MS },
);

/** More calls, each on its own connection, than a pool may keep connections. */
const LOST_CALLS = 40;
const LOST_PER_S = 40;

/** The API's requests to the limiter are lost, so it gives up their connections; then the limiter answers again. */
export const poolAfterFault = faulty(async (bench) => {
  const { view, press } = bench;
  await whileBroken(bench, "limiter", "request-lost", () => press(mixed(view, LOST_CALLS), LOST_PER_S));
  await afterRecovery(bench);
});

const BURSTS = 4;

/** The key service's link is cut for longer than a key record may be kept, and healed; then many call at once. */
export const keysRefused = faulty(async (bench) => {
  const { view, sendAll, clock, lookups } = bench;
  await whileBroken(bench, "keys", "refused", async () => {
    await pause(benches.REVOCATION_BUDGET_MS + RECORD_MARGIN_MS);
    await sendAll(mixed(view, CALLS + 4), 6);
  });
  const from_us = clock.nowUs();
  const before = lookups();
  for (let burst = 0; burst < BURSTS; burst += 1) {
    await sendAll(callsOf(view, "design.styles", 24));
    await pause(benches.REVOCATION_BUDGET_MS + 20);
  }
  const key_lookups: StageFacts["key_lookups"] = [{ from_us, to_us: clock.nowUs(), count: lookups() - before }];
  await afterRecovery(bench);
  bench.tell({ key_lookups });
});
