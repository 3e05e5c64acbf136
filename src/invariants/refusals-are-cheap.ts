/**
 * A refusal must cost far less than serving (item 220). Compares sheds with the service time, less the round trip (the quickest
 * tenth of other answers). Varying delay on the way is not slow refusal: the quicker quarter must be slow too, and the rest not
 * much slower. A should, because machines differ.
 */
import { Distribution } from "./evidence/distribution.ts";
import { isAdmitted, isDefinite, isShed } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, unseen } from "./invariant.ts";

const ENOUGH_SHEDS = 20;
const SHARE = 0.25;
/** A busy machine explains less. */
const FLOOR_US = 25_000;

const ms = (us: number): string => `${Math.round(us / 100) / 10} ms`;

export const refusalsAreCheap: Invariant = {
  id: "refusals-are-cheap",
  level: "should",
  time: { tail: 0.25, limitMs: FLOOR_US / 1000 },
  spec: [210, 211, 220],
  statement: "a shed call is answered within a quarter of what serving a call takes",
  judge({ limits }) {
    const sheds = new Distribution();
    const served = new Distribution();
    const firstBytes = new Distribution();
    const slow: string[] = [];
    return {
      see(line) {
        if (line.type !== "call" || !isDefinite(line)) return;
        if (isShed(line)) {
          const us = line.done_us - line.sent_us;
          sheds.add(us);
          if (us > FLOOR_US && slow.length < 10) slow.push(line.id);
          return;
        }
        firstBytes.add((line.first_us ?? line.done_us) - line.sent_us);
        if (isAdmitted(line) && line.aborted !== true) served.add(line.done_us - line.sent_us);
      },
      end() {
        const serviceUs = limits.service_ms === undefined ? served.quantile(0.5) : limits.service_ms * 1000;
        if (sheds.count < ENOUGH_SHEDS) return unseen(`${sheds.count} calls were shed; 20 are needed`);
        if (serviceUs === 0) return unseen("no served call to compare with");
        const roundTripUs = firstBytes.quantile(0.1);
        const costUs = Math.max(0, sheds.quantile(0.25) - roundTripUs);
        const allowedUs = Math.max(FLOOR_US, SHARE * serviceUs);
        const seen = `three quarters of ${sheds.count} shed calls took ${ms(costUs)} or more beyond the round trip`;
        const unevenUs = sheds.quantile(0.75) - sheds.quantile(0.25);
        if (unevenUs > allowedUs / 2)
          return inconclusive(`half of all sheds differ by ${ms(unevenUs)}: too uneven to judge`);
        if (costUs <= allowedUs) return passed(`${seen}; ${ms(allowedUs)} are allowed`);
        const evidence = new Evidence();
        for (const id of slow) evidence.breach(id, seen);
        return {
          ...failed("refusals were slow", evidence),
          reason: `refusals were slow: ${ms(allowedUs)} are allowed`,
        };
      },
    };
  },
};
