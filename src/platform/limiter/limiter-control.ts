/** The limiter's part of a control plane (interface.md section 4), over any limiter: our stores, the service, or Redis. */
import { type ControlPart, readClockOffset } from "../control-plane.ts";
import type { Limiter } from "../limiter.ts";

export const limiterControl = (limiter: Pick<Limiter, "ledger" | "setClockOffset">): ControlPart => {
  let offsetMs = 0;
  return {
    routes: [
      {
        method: "GET",
        path: "/ledger",
        handle: ({ query }) => ({ status: 200, lines: limiter.ledger(query.get("run") ?? "") }),
      },
    ],
    deployment: () => ({ clock_offset_ms: offsetMs }),
    readDeployment: (body) => {
      const offset = readClockOffset(body);
      if (offset === undefined) return { apply: () => ({ clock_offset_ms: offsetMs }) };
      const before = offsetMs;
      return {
        save: () => limiter.setClockOffset(offset),
        restore: () => limiter.setClockOffset(before),
        apply: () => {
          offsetMs = offset;
          return { clock_offset_ms: offsetMs };
        },
      };
    },
  };
};
