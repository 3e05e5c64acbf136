/** An absent style written as null. */
import type { Mutant } from "./mutant.ts";

export const sendsANullStyle: Mutant = {
  name: "sends-a-null-style",
  harm: "embeds that test for the key's presence load the style `null`",
  kills: ["verify/session-basemap-style-absent"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    writeAnswer: (response, status, headers, body) => {
      if (!body.startsWith('{"session_token"') || body.includes("basemap_style_id")) {
        return healthy.writeAnswer(response, status, headers, body);
      }
      const padded = `${body.slice(0, -1)},"basemap_style_id":null}`;
      const at = headers.indexOf("Content-Length");
      healthy.writeAnswer(response, status, headers.with(at + 1, String(Buffer.byteLength(padded))), padded);
    },
  }),
};
