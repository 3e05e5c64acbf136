/**
 * A fault of one link beside the calls of a small stage, one of `faults/link-faults.ts` by name and by what it looks like: asked
 * for, seen to bite, healed. So `limiter-refused` is the same here as in a suite, though no proxy stands on the link.
 */
import { faultTeller, makeFault } from "../faults/link-faults.ts";
import { waitUntil } from "../supervision/waiting.ts";
import { httpProbe, type LinkSeen, observeLink } from "../tools/link-probe.ts";
import { LIMITER_BUDGET_MS } from "./deployment.ts";
import type { FaultyLink } from "./faulty-link.ts";
import type { Bench } from "./stage-bench.ts";

type BrokenLink = "refused" | "reply-lost" | "request-lost";

const PROBE_MS = 300;
const DEADLINE_MS = 5_000;

const PUT: Readonly<Record<BrokenLink, (link: FaultyLink) => unknown>> = {
  refused: (link) => link.refuse(),
  "reply-lost": (link) => link.setFault("reply-lost"),
  "request-lost": (link) => link.setFault("request-lost"),
};

const TAKE: Readonly<Record<BrokenLink, (link: FaultyLink) => unknown>> = {
  refused: (link) => link.listenAgain(),
  "reply-lost": (link) => {
    link.setFault("none");
    link.cut();
  },
  // What was left open on it stays open.
  "request-lost": (link) => link.setFault("none"),
};

/** Breaks the link, plays `during`, heals it. */
export const whileBroken = async (
  bench: Bench,
  link: "limiter" | "keys",
  name: BrokenLink,
  during: () => Promise<void>,
): Promise<void> => {
  const { links, stage, clock } = bench;
  if (links === null) throw new Error(`${stage} needs links that can be broken`);
  const faulty = links[link];
  const fault = makeFault(name, { budgetMs: LIMITER_BUDGET_MS });
  const tell = faultTeller(
    stage,
    link,
    fault,
    () => clock.nowUs(),
    (line) => bench.add(line),
  );
  const look = (): Promise<LinkSeen> => observeLink(httpProbe(new URL(faulty.url).host, "/health", PROBE_MS));
  const until = async (what: string, shows: (seen: LinkSeen) => boolean): Promise<void> => {
    const { met } = await waitUntil(async () => shows(await look()), { forMs: DEADLINE_MS, pollMs: 10 });
    if (!met) throw new Error(`${stage}: the link to the ${link} did not get ${what} within 5 s`);
  };

  bench.tell({ faults: true });
  tell("injecting");
  await PUT[name](faulty);
  await until(fault.name, fault.shows);
  tell("injected", { took_effect: true });
  await during();
  tell("healing");
  await TAKE[name](faulty);
  await until("whole again", ({ ended }) => ended === "complete");
  tell("healed");
};
