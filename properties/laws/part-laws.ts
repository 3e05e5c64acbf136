/**
 * The laws that can judge any parts of the platform, each with the parts that it looks at: the same definitions by which the
 * tests judge the healthy parts. A law over sockets opens a deployment of its own.
 */
import { openLimiterStore } from "../../src/platform/limiter/store.ts";
import type { Parts } from "../../src/platform/parts.ts";
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

type OpenLaw = { property: Property; close(): Promise<void> };

export type PartLaw = {
  /** Set if the law mostly waits for sockets and budgets instead of using the CPU. */
  waits?: true;
  /** A short name, for a table. */
  name: string;
  /** The law is tried only on mutants that spoil one of these parts. */
  looksAt: readonly (keyof Parts)[];
  /** Enough cases to find every mutant that the law can see. */
  runs: number;
  open(parts: Parts): Promise<OpenLaw>;
};

/** Longer budgets than in the tests: trials run side by side, and a busy machine must not look like a slow dependency. */
const PATIENT = { keyServiceBudgetMs: 700, limiterBudgetMs: 500 };

const pure =
  (property: (parts: Parts) => Property): PartLaw["open"] =>
  async (parts) => ({ property: property(parts), close: async () => {} });

const EVERY_PART_BEHIND_SOCKETS = [
  ...([
    "orders",
    "shedder",
    "writeRefusal",
    "writeAnswer",
    "sessionClaims",
    "cors",
    "voice",
    "serviceMs",
    "keyCache",
  ] as const),
  ...([
    "keyLink",
    "limiterLink",
    "linkNetwork",
    "chargeId",
    "settlement",
    "slots",
    "count",
    "requestLog",
    "streamsFinishOnStop",
    "refundsSettleOnStop",
  ] as const),
  ...(["limiterDecisions", "limiterStore", "keyDecisions", "keyStore"] as const),
];

export const PART_LAWS: readonly PartLaw[] = [
  {
    waits: true,
    name: "real-server",
    looksAt: EVERY_PART_BEHIND_SOCKETS,
    runs: 60,
    open: async (parts) => {
      const api = await startRealApi(PATIENT, parts, { hangsMs: TIME_BUDGET_MS });
      return { property: serverAnswersAsModel(() => api), close: () => api.close() };
    },
  },
  {
    name: "order",
    looksAt: ["orders"],
    runs: 10_000,
    open: pure(({ orders }) => firstFailingCheckDecides(orders)),
  },
  {
    name: "repair",
    looksAt: ["orders"],
    runs: 5_000,
    open: pure(({ orders }) => repairNeverLeadsBack(orders)),
  },
  {
    name: "asks-no-further",
    looksAt: ["orders"],
    runs: 5_000,
    open: pure(({ orders }) => nothingIsAskedBeyond(orders)),
  },
  {
    name: "slots",
    looksAt: ["orders", "shedder", "slots"],
    runs: 5_000,
    open: pure(({ orders, shedder, slots }) => slotsComeBack(orders, shedder, slots)),
  },
  {
    name: "charges",
    looksAt: ["orders"],
    runs: 5_000,
    open: pure(({ orders }) => chargesTheMeterOfItsRoute(orders)),
  },
  {
    name: "admission",
    looksAt: ["orders"],
    runs: 1_000,
    open: pure(({ orders }) => mintsStoredAndTier(orders)),
  },
  {
    name: "origin-named",
    looksAt: ["cors"],
    runs: 2_000,
    open: pure(({ orders, cors }) => originIsToldOnlyWhenListed(orders, cors)),
  },
  {
    name: "envelopes",
    looksAt: ["writeRefusal"],
    runs: 2_000,
    open: pure(({ writeRefusal }) => writesTheEnvelopeOfItsSubcode(writeRefusal)),
  },
  {
    name: "quota",
    looksAt: ["limiterDecisions", "limiterStore", "settlement", "chargeId"],
    runs: 1_500,
    open: pure((parts) =>
      meterIsExact(() => parts.limiterStore(openLimiterStore(":memory:", parts.limiterDecisions)), parts),
    ),
  },
  {
    name: "rate-window",
    looksAt: ["limiterDecisions"],
    runs: 400,
    open: pure(({ limiterDecisions }) => noWindowHoldsMore(limiterDecisions.takeRate)),
  },
  {
    name: "rate-bucket",
    looksAt: ["limiterDecisions"],
    runs: 400,
    open: pure(({ limiterDecisions }) => admitsAsALeakyBucket(limiterDecisions.takeRate)),
  },
  {
    name: "shedding",
    looksAt: ["shedder"],
    runs: 500,
    open: pure(({ shedder }) => admitsExactlyWhoFits(shedder)),
  },
  {
    name: "key-creation",
    looksAt: ["keyDecisions"],
    runs: 3_000,
    open: pure(({ keyDecisions }) => creationIsDecidedByB5(keyDecisions)),
  },
  {
    name: "key-change",
    looksAt: ["keyDecisions"],
    runs: 3_000,
    open: pure(({ keyDecisions }) => changeIsDecidedByB5(keyDecisions)),
  },
  {
    name: "foreign-key",
    looksAt: ["keyDecisions"],
    runs: 300,
    open: pure(({ keyDecisions }) => foreignKeyIsNotFound(keyDecisions)),
  },
  {
    name: "request-log",
    looksAt: ["requestLog"],
    runs: 500,
    open: pure(({ requestLog }) => lineHoldsNoCredential(requestLog)),
  },
  {
    name: "voice",
    looksAt: ["voice"],
    runs: 300,
    open: pure(({ voice }) => everyStreamSpeaksItsOwnVocabulary(voice)),
  },
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
