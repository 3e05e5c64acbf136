/**
 * Mints over an unreliable link to a limiter store, for P6. Each message waits for fast-check's scheduler before it is
 * applied and again before its answer arrives: the two halves of an indeterminate write. A caller's deadline is a task as
 * well, so an answer that loses the race is a lost reply. Refunds go through the platform's own settlement. The store's
 * count is checked on every step, because a count that was wrong for a moment may be right again at the end.
 */
import fc from "fast-check";
import { windowOf } from "../../src/core/meters.ts";
import { add } from "../../src/history/statistics/statistics.ts";
import { createSettlement } from "../../src/platform/api/settlement.ts";
import type { LimiterStore, StoreAnswer } from "../../src/platform/limiter/store.ts";
import { HEALTHY, type Parts } from "../../src/platform/parts.ts";
import type { Instant, Limiter, Take } from "../../src/platform/ports.ts";
import { type Drawn, NOW_MS } from "./arbitraries.ts";

const mintArb = fc.record({
  /** Whether the caller's deadline may come before the answer. */
  impatient: fc.boolean(),
  /**
   * Whether the network delivers the message of a charge a second time, at any later moment. A refused take is sent once:
   * the store promises to remember charges only, and the API never sends a take again.
   */
  doubled: fc.boolean(),
  /** Whether the client is gone when the answer comes. */
  leaves: fc.nat({ max: 3 }).map((n) => n === 3),
});

export const planArb = fc.record({
  /** Mints that are sent in one message. */
  batches: fc.array(fc.array(mintArb, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 5 }),
  cap: fc.nat({ max: 6 }),
  usedBefore: fc.nat({ max: 6 }),
  /** Calls that the key's bucket holds; the clock of rates stands still. `null`: no rate limit. */
  burst: fc.option(fc.integer({ min: 1, max: 8 })),
  /** Whether a new month begins at some point. */
  monthTurns: fc.boolean(),
  /** Whether the clients give all their calls one `X-Request-Id`. */
  oneRequestId: fc.boolean(),
});

type MintEnd = "admitted" | "left" | "over_cap" | "rate_limited" | "unavailable";

const ORG = "org_a";
const NEXT_MONTH_MS = 20 * 86_400_000;

/**
 * `complaints`: what was wrong at any step; empty for a healthy store. `steps`: scheduled ones, which the scheduler
 * interleaves. `net`: of the ledger for each charge id. `used`: the store's count for each month.
 */
export const runQuota = async (
  s: fc.Scheduler,
  plan: Drawn<typeof planArb>,
  store: LimiterStore,
  parts: Pick<Parts, "settlement" | "chargeId"> = HEALTHY,
) => {
  const at: Instant = { nowMs: NOW_MS, steadyMs: 0 };
  const complaints: string[] = [];
  const used = (): number => store.used(ORG, "map_loads", at);
  store.setUsed(ORG, "map_loads", plan.usedBefore, at);

  let steps = 0;
  const turn = async (label: string): Promise<void> => {
    steps += 1;
    await s.schedule(Promise.resolve(), label);
  };

  const applyTakes = async (takes: Take[], isCopy: boolean): Promise<StoreAnswer[]> => {
    const before = used();
    const answers = await store.take(takes, at);
    const after = used();
    if (after > Math.max(plan.cap, plan.usedBefore)) complaints.push(`used ${after} is over the cap ${plan.cap}`);
    if (after < before) complaints.push(`a take lowered used from ${before} to ${after}`);
    // A copy gets the same answer as the first message and is not charged again.
    const taken = isCopy ? 0 : answers.filter(({ verdict }) => verdict === "taken").length;
    if (after !== before + taken)
      complaints.push(`${taken} taken of ${takes.length} moved used from ${before} to ${after}`);
    for (const answer of answers) {
      if (answer.verdict === "over_cap" && answer.used < plan.cap) {
        complaints.push(`refused at ${answer.used} of ${plan.cap}`);
      }
    }
    return answers;
  };

  const limiter: Pick<Limiter, "refund"> = {
    refund: async (refund) => {
      // A refund whose confirmation is lost is sent twice.
      for (const copy of ["first", "second"]) {
        await turn(`${refund.charge_id}: ${copy} refund arrives`);
        const before = used();
        await store.refund([refund], at);
        const after = used();
        if (after > before || after < before - 1) complaints.push(`a refund moved used from ${before} to ${after}`);
      }
    },
  };
  const settlement = createSettlement(limiter as Limiter, parts.settlement, 250);

  const ends = new Map<string, MintEnd>();
  const copies: Promise<unknown>[] = [];
  const send = async (
    label: string,
    takes: Take[],
    /** Called with the answers of a first message; absent for a copy. */
    applied?: (answers: StoreAnswer[]) => void,
  ): Promise<StoreAnswer[]> => {
    await turn(`${label} arrives`);
    const answers = await applyTakes(takes, applied === undefined);
    applied?.(answers);
    await turn(`${label} is answered`);
    return answers;
  };

  const mint = async (
    id: string,
    take: Take,
    mintPlan: Drawn<typeof mintArb>,
    answer: Promise<StoreAnswer | undefined>,
  ): Promise<void> => {
    const deadline = turn(`${id}: deadline`).then(() => undefined);
    const seen = await (mintPlan.impatient ? Promise.race([answer, deadline]) : answer);
    let end: MintEnd = "unavailable";
    if (seen?.verdict === "taken") end = mintPlan.leaves ? "left" : "admitted";
    else if (seen?.verdict === "over_cap" || seen?.verdict === "rate_limited") end = seen.verdict;
    ends.set(id, end);
    if (end === "unavailable") settlement.undo(take, "answer-lost");
    if (end === "left") settlement.undo(take, "client-left");
  };

  const all = plan.batches.flatMap((mints, b) => {
    const ids = mints.map((_, i) => `c${b}.${i}`);
    const requestId = (id: string): string => (plan.oneRequestId ? "run-again" : `run-${id}`);
    const takes = ids.map(
      (id): Take => ({
        charge_id: parts.chargeId(id, requestId(id)),
        request_id: requestId(id),
        org: ORG,
        key: "key_1",
        rate: plan.burst === null ? null : { perS: 1, burst: plan.burst },
        meter: { name: "map_loads", amount: 1, cap: plan.cap },
      }),
    );
    const first = send(`batch ${b}`, takes, (answers) => {
      const again = takes.filter((_, i) => mints[i]?.doubled && answers[i]?.verdict === "taken");
      if (again.length > 0) copies.push(send(`copy of batch ${b}`, again));
    });
    return [
      ...takes.map((take, i) =>
        mint(
          ids[i] as string,
          take,
          mints[i] as (typeof mints)[number],
          first.then((answers) => answers[i]),
        ),
      ),
    ];
  });
  if (plan.monthTurns) {
    all.push(
      turn("a new month").then(() => {
        at.nowMs += NEXT_MONTH_MS;
      }),
    );
  }
  await s.waitFor(Promise.all(all));
  // Runs what is still scheduled: refunds, copies, and deadlines that nobody waits for any more.
  do await s.waitIdle();
  while (settlement.unsettled() > 0);
  await Promise.all(copies);
  settlement.close();

  const net = new Map<string, number>();
  for (const line of store.ledger("")) {
    add(net, line.charge_id, line.kind === "charge" ? line.amount : -line.amount);
  }
  const months = [NOW_MS, NOW_MS + NEXT_MONTH_MS].map((nowMs) => ({ ...at, nowMs }));
  return {
    ends,
    complaints,
    steps,
    net,
    used: new Map(months.map((month) => [windowOf(month.nowMs), store.used(ORG, "map_loads", month)])),
  };
};
