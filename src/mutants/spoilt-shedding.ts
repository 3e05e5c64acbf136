/** Mutants of shedding, of slots, and of the service time. Mutants that `curve/…` kills show only past the knee. */
import type { Caps, Shedder } from "../core/shedding.ts";
import { members, renaming, type Spoil, scripting, sheddingAfter, spoilt } from "./mutant.ts";

/** Multiplies the service time of call number `n` by `factor(n)`. */
const slower =
  (factor: (n: number) => number): Spoil =>
  ({ serviceMs }) => ({ serviceMs: (drawnMs, n) => serviceMs(drawnMs, n) * factor(n) });

const withCaps =
  (spoil: (caps: Caps) => Partial<Caps>): Spoil =>
  ({ shedder }) => ({ shedder: (caps) => shedder({ ...caps, ...spoil(caps) }) });

const tenTimes = ({ globalInFlight, orgInFlight }: Caps): Caps => ({
  globalInFlight: 10 * globalInFlight,
  orgInFlight: 10 * orgInFlight,
});

const shedding =
  (spoil: (healthy: Shedder, caps: Caps) => Partial<Shedder>): Spoil =>
  ({ shedder }) => ({
    shedder: (caps) => {
      const own = shedder(caps);
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

/** At most this many refusals delay one served call. */
const UNPAID_MOST = 20;

/**
 * Each refusal adds `share` of a service time to the next served call. At k times the knee, the remaining share of the
 * goodput is (1 - k x share) / (1 - share).
 */
const dearRefusals =
  (share: number): Spoil =>
  (healthy) => {
    let unpaid = 0;
    const unpaidMore = (): void => {
      unpaid = Math.min(UNPAID_MOST, unpaid + 1);
    };
    const paying = slower(() => {
      const factor = 1 + share * unpaid;
      unpaid = 0;
      return factor;
    });
    return { ...shedding((own) => refusing(own, unpaidMore))(healthy), ...paying(healthy) };
  };

/** So many refusals make a rush; only a load of several times the knee causes them. */
const RUSH = 1_200;
/** So many calls served in a row without a refusal end the rush. */
const CALM = 20;

/** After a rush calls take `factor` times as long, until `isOver` holds for the calls served since the last refusal. */
const slowAfterRush =
  (factor: number, isOver: (served: number) => boolean): Spoil =>
  (healthy) => {
    let refused = 0;
    let served = 0;
    const refusedOneMore = (): void => {
      refused += 1;
      served = 0;
    };
    const slow = slower(() => {
      served += 1;
      if (isOver(served)) refused = 0;
      return refused >= RUSH ? factor : 1;
    });
    return { ...shedding((own) => refusing(own, refusedOneMore))(healthy), ...slow(healthy) };
  };

const SWING_MS = 1_000;
const NOTICED_MS = 8_000;
const LOSES_EVERY = 400;
/** Longer than any stream of the stages takes. */
const LONG_WAIT_MS = 2_000;
/** The first calls are fast; from this number on every call crawls. */
const CRAWLS_FROM = 4;
const CRAWL_FACTOR = 40;

export const SPOILT_SHEDDING = spoilt(
  // biome-ignore format: a row is a line
  [
    ["sheds-too-early", "overload", ["sheds-only-over-the-cap"], "customers are refused while half of the machine is idle"],
    ["never-sheds", "overload", ["sheds-above-the-cap"], "in a rush everybody waits and nobody is served"],
    ["collapses-under-load", "past-capacity", ["sheds-above-the-cap"], "at the cap everything crawls: the machine is busy and nothing comes out"],
    ["sheds-the-neighbour", "noisy", ["organizations-do-not-share"], "one customer's rush turns away everybody else's users"],
    ["keeps-the-slot-of-a-gone-client", "streams", ["slots-are-given-back"], "some hundred closed laptops later the replica refuses everybody while it does nothing"],
    ["keeps-the-slot-of-the-refused", "answers", ["slots-are-given-back"], "some hundred bad requests later the replica refuses everybody while it does nothing"],
    ["slows-the-tail", "gate", ["gate/latency_ms_p99"], "the unlucky ones leave; the mean looks as before"],
    ["slows-everything-by-ten-percent", "gate", ["gate/latency_ms_p50"], "a tenth of the machines is bought for nothing, and nobody notices in a single release"],
    ["slows-with-every-refusal", "curve", ["curve/collapse", "curve/refusal_cost"], "the more callers come the fewer are served, and at five times the load next to nobody is"],
    ["cannot-get-over-retries", "retry-storm", ["curve/recovery", "curve/amplification"], "a rush of seconds ends when the last caller gives up, not when it is over"],
    ["notices-a-rush-late", "retry-storm", ["curve/reaction"], "for the first seconds of every rush all callers wait, and those who came first wait longest"],
    ["refuses-at-the-price-of-serving", "curve", ["curve/refusal_price", "curve/goodput_retention_5", "curve/closed_form"], "every caller who is turned away costs part of an answer to somebody else"],
    ["refuses-later-than-it-serves", "curve", ["curve/refusal_time"], "who is turned away in a rush learns it after those who were served, and has waited for nothing"],
    ["stays-slow-after-a-rush", "curve", ["curve/metastability"], "minutes of overload become hours of it, until somebody restarts the machines"],
    ["forgives-a-rush-late", "curve", ["curve/hysteresis"], "a load that was carried this morning is refused this evening, because it was higher in between"],
    ["sheds-one-in-ten-with-room", "curve", ["curve/false_sheds"], "customers are refused at a load that is carried with ease"],
    ["swings-between-all-and-nothing", "curve", ["curve/oscillation"], "of two customers who call a second apart one is always served and one never"],
    ["favours-every-second-organization", "curve", ["curve/jain_index"], "of two customers who pay the same one is served in a rush"],
    ["starves-the-quiet", "noisy-and-quiet", ["curve/isolation"], "one customer's rush turns away the customer who calls once a minute"],
    ["cuts-streams-that-it-works-for", "curve", ["curve/wasted_work"], "in a rush half of the people read half of an answer, and the machine has worked for nothing"],
    ["answers-late-and-calls-it-success", "curve", ["curve/goodput_retention", "curve/goodput_retention_2"], "in a rush every answer has status 200 and comes when its reader has left"],
    ["loses-a-slot-in-a-rush", "curve", ["curve/slots_leaked"], "after each rush a little less is carried, and after some of them nothing"],
    ["sheds-as-if-it-were-broken", "curve", ["curve/shed_subcodes"], "clients that are told of an outage fail over or page somebody, where they should have waited a second"],
  ],
  {
    "sheds-too-early": withCaps(({ globalInFlight }) => ({ globalInFlight: Math.ceil(globalInFlight / 2) })),
    "never-sheds": withCaps(() => ({ globalInFlight: 1_000_000, orgInFlight: 1_000_000 })),
    "collapses-under-load": slower((n) => (n < CRAWLS_FROM ? 1 : CRAWL_FACTOR)),
    // One counter serves all organizations.
    "sheds-the-neighbour": shedding((own) => ({
      enterOrganization: (_org, cap) => own.enterOrganization("everybody", cap),
      leaveOrganization: () => own.leaveOrganization("everybody"),
    })),
    "keeps-the-slot-of-a-gone-client": members("slots", () => ({ clientLeft: () => {} })),
    // The handler gives the slot back, and refused calls never reach it.
    "keeps-the-slot-of-the-refused": members("slots", ({ answering }) => ({
      answering: (call) => {
        if (typeof call.taken === "object" && call.taken.verdict === "taken") answering(call);
      },
    })),
    // One call in fifty waits for a lock.
    "slows-the-tail": slower((n) => (n % 50 === 49 ? 10 : 1)),
    "slows-everything-by-ten-percent": slower(() => 1.1),
    // Refusals are logged, traced and counted by the workers that serve calls.
    "slows-with-every-refusal": dearRefusals(0.3),
    // The same bug under callers who retry: after the rush, their retries keep the overload going.
    "cannot-get-over-retries": dearRefusals(0.3),
    // The limit is computed from averages over ten seconds.
    "notices-a-rush-late": ({ shedder }) => ({
      shedder: (caps) => {
        const own = shedder(tenTimes(caps));
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
    // The body is read and the key looked up before the call is refused.
    "refuses-at-the-price-of-serving": dearRefusals(0.13),
    // The call waits for its turn before anybody looks whether there is room.
    "refuses-later-than-it-serves": sheddingAfter(LONG_WAIT_MS),
    // A rush empties a cache that a busy machine cannot fill again.
    "stays-slow-after-a-rush": slowAfterRush(3, () => false),
    // The same cache is filled again as soon as there is time.
    "forgives-a-rush-late": slowAfterRush(1.6, (served) => served >= CALM),
    // An adaptive limit follows a signal that is only noise.
    "sheds-one-in-ten-with-room": shedding((own, caps) => {
      let calls = 0;
      return {
        enter: () => {
          calls += 1;
          return (calls % 10 !== 0 || own.inFlight() < caps.globalInFlight / 4) && own.enter();
        },
      };
    }),
    // The limit is set from the refusals of a second ago.
    "swings-between-all-and-nothing": shedding((own) => {
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
    // Slots are partitioned by other shares than the contract's.
    "favours-every-second-organization": shedding((own, caps) => ({
      enterOrganization: (org, cap) => {
        const isFavoured = org.charCodeAt(org.length - 1) % 2 === 0;
        return (isFavoured || own.inFlight() < 0.6 * caps.globalInFlight) && own.enterOrganization(org, cap);
      },
    })),
    // Slots of organizations without calls are lent to others.
    "starves-the-quiet": shedding((own, caps) => ({
      enterOrganization: (org, cap) => {
        const held = own.inFlightByOrganization();
        const isTaken = Object.values(held).some((calls) => calls >= caps.orgInFlight);
        return (held[org] !== undefined || !isTaken) && own.enterOrganization(org, cap);
      },
    })),
    // A deadline is checked in the middle of an answer, only under load.
    "cuts-streams-that-it-works-for": (healthy) => {
      let isRushed = false;
      const rush = (): void => {
        isRushed = true;
      };
      const cutting = scripting((frames, n) => {
        const isCut = isRushed && n % 2 === 0;
        isRushed = false;
        return isCut ? frames.slice(0, frames.length >> 1) : frames;
      });
      return { ...shedding((own) => refusing(own, rush))(healthy), ...cutting(healthy) };
    },
    // A longer queue replaces refusals.
    "answers-late-and-calls-it-success": withCaps(tenTimes),
    // A path that only overload takes skips a release.
    "loses-a-slot-in-a-rush": shedding((own) => {
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
    // A proxy answers overload with an error of its own.
    "sheds-as-if-it-were-broken": renaming({ b2b_overloaded: "key_service_unavailable" }),
  },
);
