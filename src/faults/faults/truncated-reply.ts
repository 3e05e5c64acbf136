/**
 * The reply breaks off and the connection ends. 120 bytes lie inside the head of any HTTP answer; on a link with shorter
 * replies the count runs on over several of them, and one of those is cut. Done, and the answer is nonsense.
 */
import { type FaultMaker, toxicFault } from "../fault.ts";

const CUT_AFTER_BYTES = 120;

export const truncatedReply: FaultMaker = {
  name: "truncated-reply",
  stream: "downstream",
  make: () =>
    toxicFault(
      {
        name: "truncated-reply",
        stream: "downstream",
        what: `connections end after ${CUT_AFTER_BYTES} bytes of reply: done, and the answer is cut short`,
        shows: (seen) => seen.bytes > 0 && (seen.ended === "closed" || seen.ended === "reset"),
      },
      { type: "limit_data", attributes: { bytes: CUT_AFTER_BYTES } },
    ),
};
