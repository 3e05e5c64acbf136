/** A session token cannot be revoked, so its life of at most 30 minutes bounds the harm (specification 2.1, 8; items 24, 32, 33, 224). */
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const MAX_S = 1800;

const lifetimeFault = (seconds: unknown): string | null => {
  if (typeof seconds !== "number") return `expires_in is ${JSON.stringify(seconds)}, not a number`;
  return seconds > 0 && seconds <= MAX_S ? null : `expires_in is ${seconds}`;
};

export const sessionLifetimeIsBounded: Invariant = {
  id: "session-lifetime-is-bounded",
  level: "must",
  folded: true,
  spec: [23, 24, 32, 33, 224],
  statement: "every minted session has 0 < expires_in <= 1800 and the product that was asked for",
  judge() {
    const evidence = new Evidence();
    let judged = 0;
    return {
      see(line, alike = 1) {
        if (line.type !== "call" || line.route !== "sdk.sessions" || !isAdmitted(line)) return;
        // Left out by drivers that do not keep the body.
        if (!("expires_in" in line)) return;
        judged += alike;
        const asked = line.facts?.product;
        const fault = lifetimeFault(line.expires_in);
        if (fault !== null) evidence.breach(line.id, fault);
        else if ("product" in line && asked !== undefined && line.product !== asked) {
          evidence.breach(line.id, `asked for ${asked}, minted for ${JSON.stringify(line.product)}`);
        }
      },
      end() {
        if (evidence.count > 0) return failed("a session was minted outside its bounds", evidence);
        if (judged === 0) return unseen("no minted session was seen with its lifetime");
        return passed(`${judged} sessions were minted within 30 minutes`);
      },
    };
  },
};
