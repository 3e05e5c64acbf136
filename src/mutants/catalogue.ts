/** Every mutant there is, in the order of design.md section 3. Add, do not shrink. */
import { acceptsARevokedKey } from "./accepts-a-revoked-key.ts";
import { acceptsAnExpiredKey } from "./accepts-an-expired-key.ts";
import { acceptsAnyOrigin } from "./accepts-any-origin.ts";
import { acceptsNullOrigin } from "./accepts-null-origin.ts";
import { acceptsServerKeyInBrowser } from "./accepts-server-key-in-browser.ts";
import { admitsOneTooMany } from "./admits-one-too-many.ts";
import { answers401WhenKeysAreDown } from "./answers-401-when-keys-are-down.ts";
import { answers500OnMalformed } from "./answers-500-on-malformed.ts";
import { answersEmptyStreams } from "./answers-empty-streams.ts";
import { answersMalformedFirst } from "./answers-malformed-first.ts";
import { answersWithAPage } from "./answers-with-a-page.ts";
import { buffersTheStream } from "./buffers-the-stream.ts";
import { chargesNobody } from "./charges-nobody.ts";
import { chargesOtherProducts } from "./charges-other-products.ts";
import { chargesTheMalformed } from "./charges-the-malformed.ts";
import { chargesTheRefused } from "./charges-the-refused.ts";
import { chargesTheRetryAgain } from "./charges-the-retry-again.ts";
import { chargesTheShed } from "./charges-the-shed.ts";
import { checksThenChargesWithAGap } from "./checks-then-charges-with-a-gap.ts";
import { collapsesUnderLoad } from "./collapses-under-load.ts";
import { countsForAnotherOrganization } from "./counts-for-another-organization.ts";
import { countsItselfWrong } from "./counts-itself-wrong.ts";
import { countsLoadsOnTheWrongOrganization } from "./counts-loads-on-the-wrong-organization.ts";
import { cutsOneStreamInFifty } from "./cuts-one-stream-in-fifty.ts";
import { doublesAtTheWindowEdge } from "./doubles-at-the-window-edge.ts";
import { dropsStreamsOnDeploy } from "./drops-streams-on-deploy.ts";
import { dropsTheLastEvent } from "./drops-the-last-event.ts";
import { echoesAnotherProduct } from "./echoes-another-product.ts";
import { endsWithoutDone } from "./ends-without-done.ts";
import { explainsThe401 } from "./explains-the-401.ts";
import { failsOpen } from "./fails-open.ts";
import { failsRoutesWith400 } from "./fails-routes-with-400.ts";
import { flattensTheDetail } from "./flattens-the-detail.ts";
import { foreignOrgKeyVisible } from "./foreign-org-key-visible.ts";
import { forgetsProductRestrictions } from "./forgets-product-restrictions.ts";
import { forgetsRefundsOnRestart } from "./forgets-refunds-on-restart.ts";
import { forgetsTheNewMonth } from "./forgets-the-new-month.ts";
import { forgetsThePartialText } from "./forgets-the-partial-text.ts";
import { givesServerKeysToFree } from "./gives-server-keys-to-free.ts";
import { hangsInsteadOfRefusing } from "./hangs-instead-of-refusing.ts";
import { hidesRetryAfter } from "./hides-retry-after.ts";
import { ignoresTheScope } from "./ignores-the-scope.ts";
import { inventsASubcode } from "./invents-a-subcode.ts";
import { keepsTheChargeOfALostReply } from "./keeps-the-charge-of-a-lost-reply.ts";
import { keepsTheSlotOfAGoneClient } from "./keeps-the-slot-of-a-gone-client.ts";
import { keepsTheSlotOfTheRefused } from "./keeps-the-slot-of-the-refused.ts";
import { keyLimitOffByOne } from "./key-limit-off-by-one.ts";
import { leaksAPool } from "./leaks-a-pool.ts";
import { leaksAcao } from "./leaks-acao.ts";
import { letsFreeMintChat } from "./lets-free-mint-chat.ts";
import { limitsPerReplica } from "./limits-per-replica.ts";
import { matchesOriginsByPrefix } from "./matches-origins-by-prefix.ts";
import { mintsForAnHour } from "./mints-for-an-hour.ts";
import { mintsFromAServerKey } from "./mints-from-a-server-key.ts";
import { mintsWithoutAnOrigin } from "./mints-without-an-origin.ts";
import type { Mutant } from "./mutant.ts";
import { neverHardStops } from "./never-hard-stops.ts";
import { neverSheds } from "./never-sheds.ts";
import { printsTheToken } from "./prints-the-token.ts";
import { quotaNumbersAsStrings } from "./quota-numbers-as-strings.ts";
import { refundsTwice } from "./refunds-twice.ts";
import { remembersTheOldTier } from "./remembers-the-old-tier.ts";
import { reportsTheWrongLimit } from "./reports-the-wrong-limit.ts";
import { retryAfterTooEarly } from "./retry-after-too-early.ts";
import { sendsANullStyle } from "./sends-a-null-style.ts";
import { servesServerKeysOnFree } from "./serves-server-keys-on-free.ts";
import { servesStaleWhenKeysAreDown } from "./serves-stale-when-keys-are-down.ts";
import { servesThePublishableKey } from "./serves-the-publishable-key.ts";
import { shedsSlowly } from "./sheds-slowly.ts";
import { shedsTheNeighbour } from "./sheds-the-neighbour.ts";
import { shedsTooEarly } from "./sheds-too-early.ts";
import { shedsWithA503 } from "./sheds-with-a-503.ts";
import { skipsIpAllowlist } from "./skips-ip-allowlist.ts";
import { slowsEverythingByTenPercent } from "./slows-everything-by-ten-percent.ts";
import { slowsTheTail } from "./slows-the-tail.ts";
import { speaksControlEverywhere } from "./speaks-control-everywhere.ts";
import { stampedesTheKeyService } from "./stampedes-the-key-service.ts";
import { staysBrokenAfterHealing } from "./stays-broken-after-healing.ts";
import { stopsAtTheSoftBand } from "./stops-at-the-soft-band.ts";
import { swapsBrowserAndAddress } from "./swaps-browser-and-address.ts";
import { swapsKindAndOrigin } from "./swaps-kind-and-origin.ts";
import { swapsQuotaAndOrigin } from "./swaps-quota-and-origin.ts";
import { swapsScopeAndOrigin } from "./swaps-scope-and-origin.ts";
import { swapsTheTwoOverloads } from "./swaps-the-two-overloads.ts";
import { swapsTwoChecks } from "./swaps-two-checks.ts";
import { talksAfterError } from "./talks-after-error.ts";
import { tileRestrictionAs403 } from "./tile-restriction-as-403.ts";
import { trustsAStaleKey } from "./trusts-a-stale-key.ts";
import { trustsTheClientId } from "./trusts-the-client-id.ts";
import { unitesInsteadOfIntersects } from "./unites-instead-of-intersects.ts";
import { unlocksTheViewer } from "./unlocks-the-viewer.ts";
import { vendorWithoutAcknowledgement } from "./vendor-without-acknowledgement.ts";
import { widensBeyondTheTier } from "./widens-beyond-the-tier.ts";
import { wrapsTheFlatBody } from "./wraps-the-flat-body.ts";

export const MUTANTS: readonly Mutant[] = [
  swapsTwoChecks,
  swapsKindAndOrigin,
  swapsScopeAndOrigin,
  swapsBrowserAndAddress,
  swapsQuotaAndOrigin,
  answersMalformedFirst,
  wrapsTheFlatBody,
  flattensTheDetail,
  inventsASubcode,
  explainsThe401,
  quotaNumbersAsStrings,
  answers500OnMalformed,
  failsRoutesWith400,
  tileRestrictionAs403,
  hidesRetryAfter,
  retryAfterTooEarly,
  unitesInsteadOfIntersects,
  letsFreeMintChat,
  servesServerKeysOnFree,
  forgetsProductRestrictions,
  ignoresTheScope,
  unlocksTheViewer,
  remembersTheOldTier,
  acceptsAnyOrigin,
  acceptsNullOrigin,
  matchesOriginsByPrefix,
  mintsWithoutAnOrigin,
  mintsFromAServerKey,
  servesThePublishableKey,
  acceptsServerKeyInBrowser,
  skipsIpAllowlist,
  acceptsARevokedKey,
  acceptsAnExpiredKey,
  trustsAStaleKey,
  mintsForAnHour,
  echoesAnotherProduct,
  printsTheToken,
  countsItselfWrong,
  countsForAnotherOrganization,
  chargesOtherProducts,
  chargesTheMalformed,
  chargesNobody,
  chargesTheRefused,
  chargesTheShed,
  chargesTheRetryAgain,
  keepsTheChargeOfALostReply,
  refundsTwice,
  admitsOneTooMany,
  checksThenChargesWithAGap,
  trustsTheClientId,
  neverHardStops,
  stopsAtTheSoftBand,
  reportsTheWrongLimit,
  forgetsTheNewMonth,
  countsLoadsOnTheWrongOrganization,
  doublesAtTheWindowEdge,
  limitsPerReplica,
  failsOpen,
  hangsInsteadOfRefusing,
  forgetsRefundsOnRestart,
  staysBrokenAfterHealing,
  leaksAPool,
  answers401WhenKeysAreDown,
  servesStaleWhenKeysAreDown,
  stampedesTheKeyService,
  shedsTooEarly,
  swapsTheTwoOverloads,
  neverSheds,
  shedsSlowly,
  collapsesUnderLoad,
  shedsTheNeighbour,
  shedsWithA503,
  keepsTheSlotOfAGoneClient,
  keepsTheSlotOfTheRefused,
  dropsTheLastEvent,
  answersEmptyStreams,
  cutsOneStreamInFifty,
  endsWithoutDone,
  talksAfterError,
  speaksControlEverywhere,
  buffersTheStream,
  dropsStreamsOnDeploy,
  leaksAcao,
  forgetsThePartialText,
  sendsANullStyle,
  answersWithAPage,
  foreignOrgKeyVisible,
  vendorWithoutAcknowledgement,
  keyLimitOffByOne,
  widensBeyondTheTier,
  givesServerKeysToFree,
  slowsTheTail,
  slowsEverythingByTenPercent,
];
