/** A fault of one link beside the calls of a small stage, told as an experiment tells it: asked for, seen to bite, healed. */
import { httpProbe, observeLink } from "../chaos/link-probe.ts";
import type { FaultLine } from "../history/line.ts";
import type { LinkFault } from "../platform/faulty-link.ts";
import { waitUntil } from "../supervision/waiting.ts";
import type { Bench } from "./stage-bench.ts";

/** What the plays call a fault, and what the link and `chaos/catalogue.ts` call it. */
const NAMES = {
  refused: "accepted-then-closed",
  silent: "request-lost",
  reset: "reset",
  "reply-lost": "reply-lost",
} as const satisfies Record<string, LinkFault>;

const PROBE_MS = 300;
const DEADLINE_MS = 5_000;

/** Breaks the link, plays `during`, heals it. `beforeHealing` is the last thing that happens while it is broken. */
export const whileBroken = async (
  bench: Bench,
  link: "limiter" | "keys",
  fault: keyof typeof NAMES,
  during: () => Promise<void>,
): Promise<void> => {
  const { links, stage, clock } = bench;
  if (links === null) throw new Error(`${stage} needs links that can be broken`);
  const faulty = links[link];
  const tell = (phase: FaultLine["phase"], more: Partial<FaultLine> = {}): void =>
    bench.add({
      type: "fault",
      stage,
      experiment: `${link}-${NAMES[fault]}`,
      link,
      fault: NAMES[fault],
      stream: "both",
      phase,
      at_us: clock.nowUs(),
      ...more,
    });
  const passes = async (): Promise<boolean> =>
    (await observeLink(httpProbe(new URL(faulty.url).host, "/health", PROBE_MS))).ended === "complete";
  const until = async (what: string, condition: () => Promise<boolean>): Promise<void> => {
    const { met } = await waitUntil(condition, { forMs: DEADLINE_MS, pollMs: 10 });
    if (!met) throw new Error(`${stage}: the link to the ${link} did not get ${what} within 5 s`);
  };

  bench.tell({ faults: true });
  tell("injecting");
  faulty.setFault(NAMES[fault]);
  await until("broken", async () => !(await passes()));
  tell("injected", { took_effect: true });
  await during();
  tell("healing");
  faulty.setFault("none");
  faulty.cut();
  await until("whole again", passes);
  tell("healed");
};
