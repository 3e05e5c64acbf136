/** Mutants of shedding that only a load past the knee shows, level by level. */
import type { Caps, Shedder } from "../core/shedding.ts";
import { members, type Spoilt } from "./mutant.ts";

const shedder =
  (spoil: (healthy: Shedder, caps: Caps) => Partial<Shedder>): Spoilt["spoil"] =>
  (healthy) => ({
    shedder: (caps) => {
      const own = healthy.shedder(caps);
      return { ...own, ...spoil(own, caps) };
    },
  });

/** Calls `onRefusal` for each call that the replica's cap refuses. */
const refusing = (own: Shedder, onRefusal: () => void): Pick<Shedder, "enter"> => ({
  enter: () => {
    const isIn = own.enter();
    if (!isIn) onRefusal();
    return isIn;
  },
});

/** More work than this at once is not waited for. */
const UNPAID_MOST = 20;

/**
 * Each refusal costs this share of a call, which the next call that is served waits for. At k times the knee what is left of
 * the goodput is (1 - k x share) / (1 - share).
 */
const dearRefusals =
  (share: number): Spoilt["spoil"] =>
  (healthy) => {
    let unpaid = 0;
    const unpaidMore = (): void => {
      unpaid = Math.min(UNPAID_MOST, unpaid + 1);
    };
    return {
      ...shedder((own) => refusing(own, unpaidMore))(healthy),
      serviceMs: (drawnMs, n) => {
        const ms = healthy.serviceMs(drawnMs, n) * (1 + share * unpaid);
        unpaid = 0;
        return ms;
      },
    };
  };

/** Refusals of a rush, which only a load of several times the knee brings. */
const RUSH = 1_200;
/** Calls served in a row, none refused between them, after which the rush is over. */
const CALM = 20;

/** After a rush calls take `factor` times as long, until `isOver` with as many calls served since the last refusal. */
const slowAfterRush =
  (factor: number, isOver: (served: number) => boolean): Spoilt["spoil"] =>
  (healthy) => {
    let refused = 0;
    let served = 0;
    const refusedOneMore = (): void => {
      refused += 1;
      served = 0;
    };
    return {
      ...shedder((own) => refusing(own, refusedOneMore))(healthy),
      serviceMs: (drawnMs, n) => {
        served += 1;
        if (isOver(served)) refused = 0;
        return healthy.serviceMs(drawnMs, n) * (refused >= RUSH ? factor : 1);
      },
    };
  };

const SWING_MS = 1_000;
const NOTICED_MS = 8_000;
const LOSES_EVERY = 400;

export const SPOILT_CURVE: readonly Spoilt[] = [
  // Refusals that are logged, traced and counted by whoever should serve.
  {
    name: "slows-with-every-refusal",
    harm: "the more callers come the fewer are served, and at five times the load next to nobody is",
    kills: ["curve/collapse"],
    stage: "curve",
    spoil: dearRefusals(0.3),
  },
  // The same under callers who ask again: the overload is over, and their retries keep it up.
  {
    name: "cannot-get-over-retries",
    harm: "a rush of seconds ends when the last caller gives up, not when it is over",
    kills: ["curve/recovery", "curve/amplification"],
    stage: "retry-storm",
    spoil: dearRefusals(0.3),
  },
  // A limit that is computed from the averages of ten seconds.
  {
    name: "notices-a-rush-late",
    harm: "for the first seconds of every rush all callers wait, and those who came first wait longest",
    kills: ["curve/reaction"],
    stage: "retry-storm",
    spoil: (healthy) => ({
      shedder: (caps) => {
        const own = healthy.shedder({ globalInFlight: 10 * caps.globalInFlight, orgInFlight: 10 * caps.orgInFlight });
        let fullSinceMs: number | null = null;
        return {
          ...own,
          enter: () => {
            if (own.inFlight() < caps.globalInFlight) fullSinceMs = null;
            else fullSinceMs ??= performance.now();
            return (fullSinceMs === null || performance.now() - fullSinceMs < NOTICED_MS) && own.enter();
          },
        };
      },
    }),
  },
  // The body is read and the key looked up before the call is refused.
  {
    name: "refuses-at-the-price-of-serving",
    harm: "every caller who is turned away costs part of an answer to somebody else",
    kills: ["curve/refusal_price", "curve/goodput_retention_5", "curve/closed_form"],
    stage: "curve",
    spoil: dearRefusals(0.13),
  },
  // A cache that a rush has emptied and that a busy machine cannot fill.
  {
    name: "stays-slow-after-a-rush",
    harm: "minutes of overload become hours of it, until somebody restarts the machines",
    kills: ["curve/metastability"],
    stage: "curve",
    spoil: slowAfterRush(3, () => false),
  },
  // The same cache, filled again as soon as there is time.
  {
    name: "forgives-a-rush-late",
    harm: "a load that was carried this morning is refused this evening, because it was higher in between",
    kills: ["curve/hysteresis"],
    stage: "curve",
    spoil: slowAfterRush(1.6, (served) => served >= CALM),
  },
  // An adaptive limit that follows a signal which is noise.
  {
    name: "sheds-one-in-ten-with-room",
    harm: "customers are refused at a load that is carried with ease",
    kills: ["curve/false_sheds"],
    stage: "curve",
    spoil: shedder((own, caps) => {
      let calls = 0;
      return {
        enter: () => {
          calls += 1;
          return (calls % 10 !== 0 || own.inFlight() < caps.globalInFlight / 4) && own.enter();
        },
      };
    }),
  },
  // A limit that is set from what was refused a second ago.
  {
    name: "swings-between-all-and-nothing",
    harm: "of two customers who call a second apart one is always served and one never",
    kills: ["curve/oscillation"],
    stage: "curve",
    spoil: shedder((own) => {
      let fullMs = Number.NEGATIVE_INFINITY;
      const { enter } = refusing(own, () => {
        fullMs = performance.now();
      });
      return {
        enter: () => {
          const nowMs = performance.now();
          const isShut = Math.floor(nowMs / SWING_MS) % 2 === 1 && nowMs - fullMs < 2 * SWING_MS;
          return !isShut && enter();
        },
      };
    }),
  },
  // A partition whose shares are not those of the contract.
  {
    name: "favours-every-second-organization",
    harm: "of two customers who pay the same one is served in a rush",
    kills: ["curve/jain_index"],
    stage: "curve",
    spoil: shedder((own, caps) => ({
      enterOrganization: (org, cap) => {
        const isFavoured = org.charCodeAt(org.length - 1) % 2 === 0;
        return (isFavoured || own.inFlight() < 0.6 * caps.globalInFlight) && own.enterOrganization(org, cap);
      },
    })),
  },
  // Slots of organizations that hold none are lent to whoever asks for more.
  {
    name: "starves-the-quiet",
    harm: "one customer's rush turns away the customer who calls once a minute",
    kills: ["curve/isolation"],
    stage: "noisy-and-quiet",
    spoil: shedder((own, caps) => ({
      enterOrganization: (org, cap) => {
        const held = own.inFlightByOrganization();
        const isTaken = Object.values(held).some((calls) => calls >= caps.orgInFlight);
        return (held[org] !== undefined || !isTaken) && own.enterOrganization(org, cap);
      },
    })),
  },
  // A deadline that is looked at in the middle of an answer, under load alone.
  {
    name: "cuts-streams-that-it-works-for",
    harm: "in a rush half of the people read half of an answer, and the machine has worked for nothing",
    kills: ["curve/wasted_work"],
    stage: "curve",
    spoil: (healthy) => {
      let refused = 0;
      let streams = 0;
      const refusedOneMore = (): void => {
        refused += 1;
      };
      return {
        ...shedder((own) => refusing(own, refusedOneMore))(healthy),
        ...members("voice", (voice) => ({
          script: (request) => {
            const frames = voice.script(request);
            const isRushed = refused > 0;
            refused = 0;
            streams += 1;
            return isRushed && streams % 2 === 0 ? frames.slice(0, frames.length >> 1) : frames;
          },
        }))(healthy),
      };
    },
  },
  // A queue that was made longer after somebody complained of refusals.
  {
    name: "answers-late-and-calls-it-success",
    harm: "in a rush every answer has status 200 and comes when its reader has left",
    kills: ["curve/goodput_retention", "curve/goodput_retention_2"],
    stage: "curve",
    spoil: (healthy) => ({
      shedder: (caps) =>
        healthy.shedder({ globalInFlight: 10 * caps.globalInFlight, orgInFlight: 10 * caps.orgInFlight }),
    }),
  },
  // A release that is skipped on a path that only overload takes.
  {
    name: "loses-a-slot-in-a-rush",
    harm: "after each rush a little less is carried, and after some of them nothing",
    kills: ["curve/slots_leaked"],
    stage: "curve",
    spoil: shedder((own) => {
      let refused = 0;
      return {
        ...refusing(own, () => {
          refused += 1;
        }),
        leave: () => {
          if (refused < LOSES_EVERY) own.leave();
          else refused = 0;
        },
      };
    }),
  },
  // A proxy that has its own words for a full house.
  {
    name: "sheds-as-if-it-were-broken",
    harm: "clients that are told of an outage fail over or page somebody, where they should have waited a second",
    kills: ["curve/shed_subcodes"],
    stage: "curve",
    spoil: (healthy) => ({
      writeRefusal: (refuse) =>
        healthy.writeRefusal(refuse.refuse === "b2b_overloaded" ? { refuse: "key_service_unavailable" } : refuse),
    }),
  },
];
