/** Mutants of shedding, of the slots of calls under way, and of the time that a call takes. */
import type { Spoilt } from "./mutant.ts";

/** How many calls it takes until the machine crawls. */
const CRAWLS_FROM = 4;
const CRAWL_FACTOR = 40;

export const SPOILT_SHEDDING: readonly Spoilt[] = [
  // A cap that counts half of what there is.
  {
    name: "sheds-too-early",
    harm: "customers are refused while half of the machine is idle",
    kills: ["sheds-only-over-the-cap"],
    stage: "overload",
    spoil: (healthy) => ({
      shedder: (caps) => healthy.shedder({ ...caps, globalInFlight: Math.ceil(caps.globalInFlight / 2) }),
    }),
  },
  // A cap that is configured and not asked.
  {
    name: "never-sheds",
    harm: "in a rush everybody waits and nobody is served",
    kills: ["sheds-above-the-cap"],
    stage: "overload",
    spoil: (healthy) => ({
      shedder: (caps) => healthy.shedder({ ...caps, globalInFlight: 1_000_000, orgInFlight: 1_000_000 }),
    }),
  },
  // Work that gets slower for all the more of it there is.
  {
    name: "collapses-under-load",
    harm: "at the cap everything crawls: the machine is busy and nothing comes out",
    kills: ["sheds-above-the-cap"],
    stage: "past-capacity",
    spoil: (healthy) => ({
      serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * (n < CRAWLS_FROM ? 1 : CRAWL_FACTOR),
    }),
  },
  // One counter for all organizations.
  {
    name: "sheds-the-neighbour",
    harm: "one customer's rush turns away everybody else's users",
    kills: ["organizations-do-not-share"],
    stage: "noisy",
    spoil: (healthy) => ({
      shedder: (caps) => {
        const shedder = healthy.shedder(caps);
        return {
          ...shedder,
          enterOrganization: (_org, cap) => shedder.enterOrganization("everybody", cap),
          leaveOrganization: () => shedder.leaveOrganization("everybody"),
        };
      },
    }),
  },
  // A slot given back when an answer ends, and only then.
  {
    name: "keeps-the-slot-of-a-gone-client",
    harm: "some hundred closed laptops later the replica refuses everybody while it does nothing",
    kills: ["slots-are-given-back"],
    stage: "streams",
    spoil: (healthy) => ({
      slots: { ...healthy.slots, clientLeft: () => {} },
    }),
  },
  // A slot given back by the handler, which refused calls never reach.
  {
    name: "keeps-the-slot-of-the-refused",
    harm: "some hundred bad requests later the replica refuses everybody while it does nothing",
    kills: ["slots-are-given-back"],
    stage: "answers",
    spoil: (healthy) => ({
      slots: {
        ...healthy.slots,
        answering: (call) => {
          const admitted = typeof call.taken === "object" && call.taken.verdict === "taken";
          if (admitted) healthy.slots.answering(call);
        },
      },
    }),
  },
  // One call in fifty that waits for a lock.
  {
    name: "slows-the-tail",
    harm: "the unlucky ones leave; the mean looks as before",
    kills: ["gate/latency_ms_p99"],
    stage: "gate",
    spoil: (healthy) => ({
      serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * (n % 50 === 49 ? 10 : 1),
    }),
  },
  // A little more work in every call.
  {
    name: "slows-everything-by-ten-percent",
    harm: "a tenth of the machines is bought for nothing, and nobody notices in a single release",
    kills: ["gate/latency_ms_p50"],
    stage: "gate",
    spoil: (healthy) => ({
      serviceMs: (drawnMs, n) => healthy.serviceMs(drawnMs, n) * 1.1,
    }),
  },
];
