/**
 * Laws that are broken on purpose, so that the replay line of a failure can be tried for real (replay.test.ts). They are
 * registered only when asked for.
 */
import fc from "fast-check";
import { test } from "vitest";
import { law } from "./law.ts";

type Counter = { count: number };

const step = (by: number): fc.Command<Counter, Counter> => ({
  check: ({ count }) => by >= 0 || count > 0,
  run: (model, real) => {
    model.count += by;
    real.count += by;
    if (real.count >= 3) throw new Error(`the counter is at ${real.count}`);
  },
  toString: () => (by > 0 ? "up" : by < 0 ? "down" : "wait"),
});

if (process.env.FLOODGATE_PROPERTY_PLANTED === "yes") {
  law("planted: every number is small", () =>
    fc.property(fc.integer({ min: 0, max: 10_000 }), fc.string(), (n, text) => {
      if (n >= 1_000) throw new Error(`${n} is not small, whatever ${JSON.stringify(text)} says`);
    }),
  );

  law("planted: a counter never reaches three", (replayPath) =>
    fc.property(
      fc.commands([fc.constant(step(0)), fc.constant(step(1)), fc.constant(step(-1))], {
        maxCommands: 30,
        size: "max",
        ...(replayPath === undefined ? {} : { replayPath }),
      }),
      (commands) => fc.modelRun(() => ({ model: { count: 0 }, real: { count: 0 } }), commands),
    ),
  );
} else {
  test.skip("the planted laws are registered when replay.test.ts asks for them", () => {});
}
