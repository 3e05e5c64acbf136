import { expect, test } from "vitest";
import { DECISIONS, decide } from "./store-benches.ts";

test("each decision that is measured comes out as it should", () => {
  expect(DECISIONS).toEqual(["runtime-server", "runtime-session", "exchange-chat", "exchange-tile", "shed"]);
  for (const decision of DECISIONS) expect(() => decide(decision, 2)).not.toThrow();
});
