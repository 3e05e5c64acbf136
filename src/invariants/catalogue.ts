/** All invariants, in the order of reports. */
import { admissionIsStoredAndTier } from "./admission-is-stored-and-tier.ts";
import { admitsAtMostTheAllowance } from "./admits-at-most-the-allowance.ts";
import { admitsWhatIsAllowed } from "./admits-what-is-allowed.ts";
import { answered } from "./answered.ts";
import { chargedOnce } from "./charged-once.ts";
import { countsAgree } from "./counts-agree.ts";
import { envelopeFitsSubcode } from "./envelope-fits-subcode.ts";
import { eventsAreNotBuffered } from "./events-are-not-buffered.ts";
import { failsClosed } from "./fails-closed.ts";
import { firstFailingCheckDecides } from "./first-failing-check-decides.ts";
import type { Invariant } from "./invariant.ts";
import { nothingIsLeftOpen } from "./nothing-is-left-open.ts";
import { organizationsDoNotShare } from "./organizations-do-not-share.ts";
import { rateWithinAnyWindow } from "./rate-within-any-window.ts";
import { recovers } from "./recovers.ts";
import { refusalsAreCheap } from "./refusals-are-cheap.ts";
import { refusedIsNotCharged } from "./refused-is-not-charged.ts";
import { refusesInTime } from "./refuses-in-time.ts";
import { revokedStaysOut } from "./revoked-stays-out.ts";
import { secretsStaySecret } from "./secrets-stay-secret.ts";
import { sessionLifetimeIsBounded } from "./session-lifetime-is-bounded.ts";
import { shedsAboveTheCap } from "./sheds-above-the-cap.ts";
import { shedsOnlyOverTheCap } from "./sheds-only-over-the-cap.ts";
import { slotsAreGivenBack } from "./slots-are-given-back.ts";
import { streamVocabulariesDiffer } from "./stream-vocabularies-differ.ts";
import { streamsCut } from "./streams-cut.ts";
import { streamsEndOnce } from "./streams-end-once.ts";
import { tellsWhenToRetry } from "./tells-when-to-retry.ts";

export const INVARIANTS: readonly Invariant[] = [
  answered,
  firstFailingCheckDecides,
  envelopeFitsSubcode,
  tellsWhenToRetry,
  admissionIsStoredAndTier,
  admitsAtMostTheAllowance,
  admitsWhatIsAllowed,
  refusedIsNotCharged,
  chargedOnce,
  rateWithinAnyWindow,
  failsClosed,
  refusesInTime,
  recovers,
  revokedStaysOut,
  organizationsDoNotShare,
  shedsOnlyOverTheCap,
  shedsAboveTheCap,
  refusalsAreCheap,
  slotsAreGivenBack,
  nothingIsLeftOpen,
  streamsEndOnce,
  streamsCut,
  streamVocabulariesDiffer,
  eventsAreNotBuffered,
  sessionLifetimeIsBounded,
  secretsStaySecret,
  countsAgree,
];

/** The invariants with these ids, and always `answered`, so that a stage is not judged by a few answered calls. */
export const invariantsFor = (ids: readonly string[]): readonly Invariant[] =>
  INVARIANTS.filter((invariant) => invariant === answered || ids.includes(invariant.id));
