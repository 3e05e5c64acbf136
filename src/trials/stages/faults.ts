/** Stages about broken dependencies: answers, charges, and recovery after the heal. */

import { readLedger } from "../../client/control-planes.ts";
import { faultTeller, makeFault } from "../../faults/link-faults.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { pause, waitUntil } from "../../supervision/waiting.ts";
import { httpProbe, type LinkSeen, observeLink } from "../../tools/link-probe.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { Step } from "../../workload/step.ts";
import { LIMITER_BUDGET_MS, REVOCATION_BUDGET_MS } from "../deployment.ts";
import type { FaultyLink } from "../faulty-link.ts";
import { type Bench, type MiniStage, RECOVERY_DEADLINE_MS } from "../stage-bench.ts";
import { callsOf, paid } from "./load.ts";

type BrokenLink = "refused" | "reply-lost" | "request-lost";

const PROBE_MS = 300;
const DEADLINE_MS = 5_000;

/** After `request-lost`, open connections stay open. */
const heal = async (link: FaultyLink, name: BrokenLink): Promise<void> => {
  if (name === "refused") return link.listenAgain();
  link.setFault("none");
  if (name === "reply-lost") link.cut();
};

/** Injects a fault of `faults/link-faults.ts`, waits until it shows, plays `during` and heals, as in a suite but without a proxy. */
const whileBroken = async (
  bench: Bench,
  link: "limiter" | "keys",
  name: BrokenLink,
  during: () => Promise<void>,
): Promise<void> => {
  const { links, stage, clock } = bench;
  if (links === null) throw new Error(`${stage} needs links that can be broken`);
  const faulty = links[link];
  const fault = makeFault(name, { budgetMs: LIMITER_BUDGET_MS });
  const tell = faultTeller(stage, link, fault, () => clock.nowUs(), bench.add);
  const look = (): Promise<LinkSeen> => observeLink(httpProbe(new URL(faulty.url).host, "/health", PROBE_MS));
  const until = async (what: string, shows: (seen: LinkSeen) => boolean): Promise<void> => {
    const { met } = await waitUntil(async () => shows(await look()), { forMs: DEADLINE_MS, pollMs: 10 });
    if (!met) throw new Error(`${stage}: the link to the ${link} did not get ${what} within 5 s`);
  };

  bench.tell({ faults: true });
  tell("injecting");
  if (name === "refused") await faulty.refuse();
  else faulty.setFault(name);
  await until(fault.name, fault.shows);
  tell("injected", { took_effect: true });
  await during();
  tell("healing");
  await heal(faulty, name);
  await until("whole again", ({ ended }) => ended === "complete");
  tell("healed");
};

const TENANTS = 3;
/** More than judges need. */
const CALLS = 14;
const RECORD_MARGIN_MS = 100;
/** Within the limiter's budget, so that callers still wait when the link is healed. */
const CHARGED_MS = 0.7 * LIMITER_BUDGET_MS;

const mixed = (view: TargetView, count: number): Step[] => [
  ...callsOf(view, "maps.loads", Math.ceil(count / 2)),
  ...callsOf(view, "design.styles", Math.floor(count / 2)),
];

/** Calls after the recovery deadline. */
const afterRecovery = async ({ view, sendAll }: Bench): Promise<void> => {
  await pause(RECOVERY_DEADLINE_MS + 20);
  await sendAll(mixed(view, CALLS), 4);
};

const FAULT_STAGE = { tenants: paid(TENANTS), breakable: true } as const;

/** The limiter's link is cut, and healed. */
export const limiterRefused: MiniStage = {
  options: FAULT_STAGE,
  play: async (bench) => {
    const { view, sendAll } = bench;
    await sendAll(mixed(view, 6), 3);
    await whileBroken(bench, "limiter", "refused", async () => {
      await sendAll(mixed(view, CALLS + 4), 6);
    });
    await afterRecovery(bench);
  },
};

const limiterOf = ({ running }: Bench) => {
  const limiter = running.administration?.limiter;
  if (limiter === undefined) throw new Error("expected a limiter of this stage's own");
  return limiter;
};

/** Of all tenants, by the limiter's store. */
const loadsUsed = async (bench: Bench): Promise<number> => {
  let sum = 0;
  for (const { org } of bench.view.tenants) sum += await limiterOf(bench).used(org, "map_loads");
  return sum;
};

/** The limiter takes charges, its replies are lost, and it is healed while some calls still wait. */
export const limiterReplyLost: MiniStage = {
  options: FAULT_STAGE,
  play: async (bench) => {
    const { view, sendAll } = bench;
    const used = () => loadsUsed(bench);
    await sendAll(mixed(view, 6), 3);
    let waiting: Promise<unknown> = Promise.resolve();
    await whileBroken(bench, "limiter", "reply-lost", async () => {
      await sendAll(mixed(view, CALLS + 4), CALLS + 4);
      const before = await used();
      waiting = sendAll(callsOf(view, "maps.loads", 6));
      // Charged, while the callers still wait.
      await waitUntil(async () => (await used()) >= before + 6, { forMs: CHARGED_MS, pollMs: 5 });
    });
    await waiting;
    await afterRecovery(bench);
  },
};

const FORGETFUL_ENDS_MS = 1_200;

/** Replies of the limiter are lost, then it is away, and the API is asked to end before it can refund. */
export const restartUnsettled: MiniStage = {
  options: FAULT_STAGE,
  play: async (bench) => {
    const { view, sendAll, running, links, silence, tell, stage } = bench;
    if (links === null) throw new Error(`${stage} needs links that can be broken`);
    await sendAll(mixed(view, 6), 3);
    const before = await loadsUsed(bench);
    links.limiter.setFault("reply-lost");
    const refused = sendAll(callsOf(view, "maps.loads", 6));
    await waitUntil(async () => (await loadsUsed(bench)) >= before + 6, { forMs: CHARGED_MS, pollMs: 5 });
    await links.limiter.refuse();
    await refused;
    silence();
    const ended = running.api?.close();
    // The mutant has ended by then; the healthy API still retries its refunds.
    await Promise.race([ended, pause(FORGETFUL_ENDS_MS)]);
    links.limiter.setFault("none");
    await links.limiter.listenAgain();
    await ended;
    tell({ ledger: await readLedger(bench.target.control?.limiter as string, "mutants.") });
  },
};

/** More than a pool may keep, each on its own connection. */
const LOST_CALLS = 40;
const LOST_PER_S = 80;

/** Calls whose connection to the limiter is given up, then the limiter answers again. */
export const poolAfterFault: MiniStage = {
  options: FAULT_STAGE,
  play: async (bench) => {
    const { view, sendAll, press } = bench;
    await sendAll(mixed(view, 6), 3);
    await whileBroken(bench, "limiter", "request-lost", async () => {
      await press(mixed(view, LOST_CALLS), LOST_PER_S);
    });
    await afterRecovery(bench);
  },
};

const BURSTS = 4;

/** The key service's link is cut for longer than a key record may be kept, and healed; then many call at once. */
export const keysRefused: MiniStage = {
  options: FAULT_STAGE,
  play: async (bench) => {
    const { view, sendAll, clock, lookups } = bench;
    await sendAll(mixed(view, 6), 3);
    await whileBroken(bench, "keys", "refused", async () => {
      await pause(REVOCATION_BUDGET_MS + RECORD_MARGIN_MS);
      await sendAll(mixed(view, CALLS + 4), 6);
    });
    const from_us = clock.nowUs();
    const before = lookups();
    for (let burst = 0; burst < BURSTS; burst += 1) {
      await sendAll(callsOf(view, "design.styles", 24));
      await pause(REVOCATION_BUDGET_MS + 20);
    }
    const key_lookups: StageFacts["key_lookups"] = [{ from_us, to_us: clock.nowUs(), count: lookups() - before }];
    await afterRecovery(bench);
    bench.tell({ key_lookups });
  },
};
