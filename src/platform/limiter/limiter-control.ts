/** The limiter's part of a control plane (interface.md section 4), over any limiter: our stores, the service, or Redis. */
import { type ControlPart, readClockOffset } from "../http-service.ts";
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
    readDeployment: (body) => {
      const offset = readClockOffset(body);
      return async () => {
        if (offset !== undefined) {
          await limiter.setClockOffset(offset);
          offsetMs = offset;
        }
        return { clock_offset_ms: offsetMs };
      };
    },
  };
};
