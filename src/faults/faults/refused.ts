/** The dependency is not there: nobody listens. Open connections are closed, new ones refused. */
import { disableAsOurs, enableAgain, type FaultMaker } from "../fault.ts";

export const refused: FaultMaker = {
  name: "refused",
  stream: "both",
  make: () => ({
    name: "refused",
    stream: "both",
    disables: true,
    what: "the link is down: open connections are closed and new ones refused",
    put: (proxy, options) => disableAsOurs("refused", proxy, options),
    take: (proxy, options) => enableAgain("refused", proxy, options),
    shows: (seen) => seen.ended === "refused",
  }),
};
