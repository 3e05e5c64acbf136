/** All invariants, in the order of reports: what each states, the requirements that it defends, its judge. */
import { shedsAboveTheCap } from "./above-the-cap.ts";
import { admitsAtMostTheAllowance, admitsWhatIsAllowed } from "./allowances.ts";
import { answered } from "./answered.ts";
import { failsClosed, recovers } from "./broken-dependency.ts";
import {
  admissionIsStoredAndTier,
  firstFailingCheckDecides,
  revokedStaysOut,
  secretsStaySecret,
  sessionLifetimeIsBounded,
} from "./decision.ts";
import { nothingIsLeftOpen, slotsAreGivenBack } from "./given-back.ts";
import { organizationsDoNotShare, shedsOnlyOverTheCap } from "./in-flight-caps.ts";
import type { Invariant, Judge } from "./invariant.ts";
import { chargedOnce, countsAgree, refusedIsNotCharged } from "./ledger.ts";
import { rateWithinAnyWindow } from "./rate-windows.ts";
import { CHEAP_MS, envelopeFitsSubcode, refusalsAreCheap, tellsWhenToRetry } from "./refusal-forms.ts";
import { refusesInTime } from "./refusal-times.ts";
import { eventsAreNotBuffered, streamVocabulariesDiffer, WORTH_STREAMING_MS } from "./stream-events.ts";
import { streamsCut, streamsEndOnce } from "./whole-streams.ts";

const EACH = {};
const FOLDED = { folded: true } as const;
const CHARGES = { charges: true } as const;
const SHOULD = { level: "should" } as const;
const ALONE = { stands_alone: true } as const;

// biome-ignore format: a row is a line
const ROWS: [id: string, more: Partial<Invariant>, spec: number[], judge: Judge, statement: string][] = [
  ["answered", FOLDED, [], answered, "what no fault of ours explains is answered by the API itself, and not by a gateway, with a server error other than 503 or by nobody"],
  ["first-failing-check-decides", FOLDED, [68, 69, 70, 71, 72, 74, 75, 76, 77, 78, 79, 80, 81, 145, 147, 149, 150, 151, 153, 156, 158, 161, 162, 202], firstFailingCheckDecides, "every call is answered by the first check that it fails, and admitted only when it fails none"],
  ["envelope-fits-subcode", FOLDED, [59, 182, 183, 184, 185, 188, 189, 190, 216, 227], envelopeFitsSubcode, "every refusal is one of the specification's, in the envelope that its subcode has"],
  ["tells-when-to-retry", { ...SHOULD, ...FOLDED }, [208, 214, 217, 218, 226], tellsWhenToRetry, "rate_limited and tile_access_restricted say when to retry, and a client that obeys is admitted"],
  ["admission-is-stored-and-tier", FOLDED, [13, 46, 74, 75, 76, 77, 156, 193], admissionIsStoredAndTier, "a call is admitted if and only if its capability is stored in the key and admitted by the current tier"],
  ["admits-at-most-the-allowance", CHARGES, [10, 79, 184, 204, 205, 206, 225, 227, 234], admitsAtMostTheAllowance, "in a month an organization gets at most its allowance of map loads, a paid one five times it"],
  ["admits-what-is-allowed", CHARGES, [79, 80, 204, 205, 206, 225, 229], admitsWhatIsAllowed, "a map load is refused for the allowance only when the month's cap can have been reached"],
  ["refused-is-not-charged", { ...CHARGES, ...FOLDED }, [11, 80, 87, 112, 123, 222], refusedIsNotCharged, "charges less refunds are nothing for a refused call, exactly one for a metered call that was admitted"],
  ["charged-once", { ...CHARGES, ...FOLDED, ...ALONE }, [87, 222, 234], chargedOnce, "each charge is made once and refunded at most once, and each call is charged at most once"],
  ["rate-within-any-window", EACH, [214, 230], rateWithinAnyWindow, "in any window of w seconds a key gets at most burst + rate x w calls admitted"],
  ["fails-closed", EACH, [142, 153, 213, 216], failsClosed, "without its limiter the platform answers limiter_unavailable, without its key service 503"],
  ["refuses-in-time", EACH, [153, 213, 216], refusesInTime, "while a dependency is broken, every call is decided within the time that the dependency is given"],
  ["recovers", EACH, [142, 213, 216, 219], recovers, "from the recovery deadline after a heal on, calls get through the limiter and the key service again"],
  ["revoked-stays-out", EACH, [61, 142, 153, 164, 190], revokedStaysOut, "a revoked or expired credential is admitted at most for the revocation budget, and never again"],
  ["organizations-do-not-share", CHARGES, [10, 211, 220, 227], organizationsDoNotShare, "no organization is shed below its own cap, and each is charged for its own calls alone"],
  ["sheds-only-over-the-cap", EACH, [210, 211, 220, 221], shedsOnlyOverTheCap, "a call is shed only when the cap that its subcode names can have been reached"],
  ["sheds-above-the-cap", EACH, [210, 211, 220], shedsAboveTheCap, "once the caps of all replicas are reached, calls are shed and those admitted are served"],
  ["refusals-are-cheap", { ...SHOULD, time: { tail: 0.25, limitMs: CHEAP_MS } }, [210, 211, 220], refusalsAreCheap, "a shed call is answered within a quarter of what serving a call takes"],
  ["slots-are-given-back", { ...FOLDED, ...ALONE }, [180, 220], slotsAreGivenBack, "after the drain no replica holds a slot, in all or for any organization"],
  ["nothing-is-left-open", ALONE, [180], nothingIsLeftOpen, "after a fault and the drain a replica holds as many connections, files and timers as before"],
  ["streams-end-once", FOLDED, [168, 172, 173], streamsEndOnce, "each admitted stream has an event and ends once, with its terminal event or because the client left"],
  ["streams-cut", FOLDED, [8, 168, 173], streamsCut, "streams are not cut, outside our own faults"],
  ["stream-vocabularies-differ", FOLDED, [92, 93, 94, 95, 170, 176], streamVocabulariesDiffer, "no chat stream uses an event that belongs to another one's vocabulary"],
  ["events-are-not-buffered", { ...SHOULD, time: { tail: 0.1, limitMs: WORTH_STREAMING_MS } }, [8, 92, 178], eventsAreNotBuffered, "the events of a stream come one after another, not all at its end"],
  ["session-lifetime-is-bounded", FOLDED, [23, 24, 32, 33, 224], sessionLifetimeIsBounded, "every minted session has 0 < expires_in <= 1800 and the product that was asked for"],
  ["secrets-stay-secret", { ...FOLDED, ...ALONE }, [20, 27, 40, 41, 50], secretsStaySecret, "no text written during the run holds a credential that is not masked"],
  ["counts-agree", { ...CHARGES, ...FOLDED }, [19, 123, 222], countsAgree, "callers, the platform's own counts and the ledger agree on the sums"],
];

export const INVARIANTS: readonly Invariant[] = ROWS.map(([id, more, spec, judge, statement]) => ({
  id,
  level: "must",
  spec,
  judge,
  statement,
  ...more,
}));

/** The invariants with these ids, and always `answered`, so that a few answered calls do not stand for a whole stage. */
export const invariantsFor = (ids: readonly string[]): readonly Invariant[] =>
  INVARIANTS.filter(({ id }) => id === "answered" || ids.includes(id));
