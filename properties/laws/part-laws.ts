/**
 * The laws that can judge any parts of the platform, each with the parts that it looks at: the same definitions by which the
 * tests judge the healthy parts. A law over sockets opens a deployment of its own.
 */
import { openLimiterStore } from "../../src/platform/limiter/store.ts";
import { HEALTHY, type Parts } from "../../src/platform/parts.ts";
import { startRealApi } from "../rigs/real-api.ts";
import {
  chargesTheMeterOfItsRoute,
  firstFailingCheckDecides,
  mintsStoredAndTier,
  nothingIsAskedBeyond,
  originIsToldOnlyWhenListed,
  slotsComeBack,
} from "./decision-laws.ts";
import { writesTheEnvelopeOfItsSubcode } from "./envelope-laws.ts";
import type { Property } from "./examine.ts";
import { sessionIsShortAndNew } from "./exchange-law.ts";
import { anyFaultsLeaveAllowedAnswers, prepare, TIME_BUDGET_MS } from "./faults-law.ts";
import { changeIsDecidedByB5, creationIsDecidedByB5, foreignKeyIsNotFound } from "./management-laws.ts";
import { meterIsExact } from "./quota-law.ts";
import { admitsAsALeakyBucket, noWindowHoldsMore } from "./rate-laws.ts";
import { serverAnswersAsModel } from "./real-server-law.ts";
import { repairNeverLeadsBack } from "./repair-laws.ts";
import { lineHoldsNoCredential } from "./request-log-law.ts";
import { admitsExactlyWhoFits } from "./shedding-law.ts";
import { everyStreamSpeaksItsOwnVocabulary } from "./voice-law.ts";

export type PartLaw = {
  /** Set if the law mostly waits for sockets and budgets instead of using the CPU. */
  waits?: true;
  /** A short name, for a table. */
  name: string;
  /** The law is tried only on mutants that spoil one of these parts. */
  looksAt: readonly (keyof Parts)[];
  /** Enough cases to find every mutant that the law can see. */
  runs: number;
  open(parts: Parts): Promise<{ property: Property; close(): Promise<void> }>;
};

/** Longer budgets than in the tests: trials run side by side, and a busy machine must not look like a slow dependency. */
const PATIENT = { keyServiceBudgetMs: 700, limiterBudgetMs: 500 };

const EVERY_PART = Object.keys(HEALTHY) as (keyof Parts)[];

type Pure = readonly [name: string, looksAt: PartLaw["looksAt"], runs: number, property: (parts: Parts) => Property];

// biome-ignore format: a law is a row
const PURE: readonly Pure[] = [
  ["order", ["orders"], 10_000, ({ orders }) => firstFailingCheckDecides(orders)],
  ["repair", ["orders"], 5_000, ({ orders }) => repairNeverLeadsBack(orders)],
  ["asks-no-further", ["orders"], 5_000, ({ orders }) => nothingIsAskedBeyond(orders)],
  ["slots", ["orders", "shedder", "slots"], 5_000, ({ orders, shedder, slots }) => slotsComeBack(orders, shedder, slots)],
  ["charges", ["orders"], 5_000, ({ orders }) => chargesTheMeterOfItsRoute(orders)],
  ["admission", ["orders"], 1_000, ({ orders }) => mintsStoredAndTier(orders)],
  ["origin-named", ["cors"], 2_000, ({ orders, cors }) => originIsToldOnlyWhenListed(orders, cors)],
  ["envelopes", ["writeRefusal"], 2_000, ({ writeRefusal }) => writesTheEnvelopeOfItsSubcode(writeRefusal)],
  ["quota", ["limiterDecisions", "limiterStore", "settlement", "chargeId"], 1_500, (parts) =>
    meterIsExact(() => parts.limiterStore(openLimiterStore(":memory:", parts.limiterDecisions)), parts)],
  ["rate-window", ["limiterDecisions"], 400, ({ limiterDecisions }) => noWindowHoldsMore(limiterDecisions.takeRate)],
  ["rate-bucket", ["limiterDecisions"], 400, ({ limiterDecisions }) => admitsAsALeakyBucket(limiterDecisions.takeRate)],
  ["shedding", ["shedder"], 500, ({ shedder }) => admitsExactlyWhoFits(shedder)],
  ["key-creation", ["keyDecisions"], 3_000, ({ keyDecisions }) => creationIsDecidedByB5(keyDecisions)],
  ["key-change", ["keyDecisions"], 3_000, ({ keyDecisions }) => changeIsDecidedByB5(keyDecisions)],
  ["foreign-key", ["keyDecisions"], 300, ({ keyDecisions }) => foreignKeyIsNotFound(keyDecisions)],
  ["request-log", ["requestLog"], 500, ({ requestLog }) => lineHoldsNoCredential(requestLog)],
  ["voice", ["voice"], 300, ({ voice }) => everyStreamSpeaksItsOwnVocabulary(voice)],
];

export const PART_LAWS: readonly PartLaw[] = [
  {
    waits: true,
    name: "real-server",
    looksAt: EVERY_PART,
    runs: 60,
    open: async (parts) => {
      const api = await startRealApi(PATIENT, parts, { hangsMs: TIME_BUDGET_MS });
      return { property: serverAnswersAsModel(() => api), close: () => api.close() };
    },
  },
  ...PURE.map(([name, looksAt, runs, property]): PartLaw => {
    return { name, looksAt, runs, open: async (parts) => ({ property: property(parts), close: async () => {} }) };
  }),
  {
    waits: true,
    name: "exchange",
    looksAt: ["sessionClaims", "writeAnswer", "keyStore"],
    runs: 40,
    open: async (parts) => {
      const api = await startRealApi(PATIENT, parts, { hangsMs: TIME_BUDGET_MS });
      return { property: sessionIsShortAndNew(() => [{ api, lifetimeS: 900 }]), close: () => api.close() };
    },
  },
  {
    waits: true,
    name: "faults",
    looksAt: ["keyLink", "limiterLink", "limiterStore", "keyCache", "settlement"],
    runs: 6,
    open: async (parts) => {
      const api = await startRealApi(PATIENT, parts, { hangsMs: TIME_BUDGET_MS });
      const kinds = await prepare(api).catch(async (error: unknown) => {
        await api.close();
        throw error;
      });
      // `reply-lost` costs a whole budget per call, the other faults cost no time.
      const faults = ["refused", "reset", "accepted-then-closed", "truncated-reply", "nonsense", "reply-lost"];
      return {
        property: anyFaultsLeaveAllowedAnswers(faults, () => ({ api, kinds })),
        close: () => api.close(),
      };
    },
  },
];
