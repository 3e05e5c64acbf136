/** A judge of a known verdict, about time or not, so that what becomes of it on a host can be seen. */
import { BROKEN, HELD } from "../history/reason-codes.ts";
import type { StageFacts } from "../history/run-document.ts";
import type { Finding } from "./invariant.ts";
import { judgeWith } from "./judge-with.fixture.ts";

export type ClaimedVerdict = "pass" | "fail";

export const judgedOn = (verdict: ClaimedVerdict, isTimed: boolean, facts: StageFacts): Finding =>
  judgeWith(
    {
      id: "made-up",
      level: "should",
      time: isTimed ? { tail: 0.01, limitMs: 50 } : undefined,
      spec: [],
      statement: "what is made up holds",
      judge: () => ({ ...(verdict === "pass" ? HELD : BROKEN), reason: "made up", got: "it", evidence: [] }),
    },
    facts,
    [],
  );
