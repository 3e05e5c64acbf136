import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { openTransport } from "../../client/transport.ts";
import { createRunClock, wallUs } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import { createBudget } from "../planning/needs.ts";
import { createAnswerWaits, createAttempts, createLanes } from "./attempts.ts";
import { asNobody } from "./test-call.ts";
import { createThrottle } from "./throttle.ts";

/** Plays calls one after the other, every `nth` of which is never answered, or by a gateway's 504 after `gatewayMs`. */
const playedS = (nth: number, calls: number, gatewayMs?: number) => {
  const waits = createAnswerWaits();
  let nowUs = 0;
  for (let i = 1; i <= calls && waits.spent() === null; i++) {
    const isLost = i % nth === 0;
    const doneUs = nowUs + 1000 * (isLost ? (gatewayMs ?? waits.timeouts().callMs) : 100);
    const came =
      gatewayMs === undefined
        ? ({ ended: "timeout", status: null } as const)
        : ({ ended: "eof", status: 504 } as const);
    waits.add({ startedUs: nowUs, doneUs, ...(isLost ? came : { ended: "eof", status: 200 }) });
    nowUs = doneUs;
  }
  return { seconds: nowUs / 1e6, spent: waits.spent() };
};

test("a run whose every second call is never answered ends in minutes, and says so", () => {
  const { seconds, spent } = playedS(2, 700);
  expect(seconds).toBeLessThan(240);
  expect(spent).toMatch(/^150 s .* most often indeterminate \(14 times in 28 calls\).* backends dead\?/);
});

test.each([
  ["429 b2b_overloaded", /most often 429 b2b_overloaded \(597 times.*if nobody does, slots are lost/],
  ["edge 403", /most often edge 403 .*let the gateway in front pass the calls on/],
])("calls that end with %s end a run, by the time that they took together, and say what to do", (outcome, words) => {
  const waits = createAnswerWaits();
  for (let i = 0; i < 149; i++) for (const _ of "four") waits.lose(outcome, i * 1e6, (i + 1) * 1e6);
  expect(waits.spent()).toBeNull();
  waits.lose(outcome, 149e6, 150e6);
  expect(waits.spent()).toMatch(words);
  // A call that is tried once costs no waiting, and shows whether slots are lost.
  expect(waits.spent(true)).toBeNull();
});

test("a gateway that gives up after three seconds ends it as well, and one that answers 502 at once does not", () => {
  expect(playedS(2, 700, 3_000).seconds).toBeLessThan(200);
  expect(playedS(2, 700, 10).spent).toBeNull();
});

test("a few calls without an answer end no run, and slow answers are waited for", () => {
  expect(playedS(100, 700).spent).toBeNull();
  const waits = createAnswerWaits();
  const full = waits.timeouts();
  waits.add({ startedUs: 0, doneUs: 8_000_000, ended: "eof", status: 200 });
  for (let i = 0; i < 2; i++) waits.add({ startedUs: 0, doneUs: 45_000_000, ended: "timeout", status: null });
  expect(waits.timeouts()).toMatchObject({ callMs: 40_000, firstEventMs: full.firstEventMs });
});

test("no more are under way than there are lanes, in the order in which they came", async () => {
  const lanes = createLanes(2);
  let [now, most] = [0, 0];
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: 9 }, async (_, i) => {
      await lanes.take();
      order.push(i);
      now += 1;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
      lanes.giveBack();
    }),
  );
  expect(most).toBe(2);
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});

test("a target that stays away is told with the first call that had no answer", async () => {
  const server = createServer((_, res) => void res.end("{}"));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const target: Target = { schema: "floodgate/target@1", base_url: `http://127.0.0.1:${port}/v1` };
  const { dispatcher, headers, close } = await openTransport({}, createSecrets("."));
  const { attempt } = createAttempts({
    ...{ target, view: viewOf(target), dispatcher, sharedHeaders: headers, clock: createRunClock(wallUs()) },
    ...{ throttle: createThrottle(1_000), budget: createBudget(target, true, () => 1_000), restartMs: 10 },
    ...{ stage: "verify", idPrefix: "a", onLine: () => undefined, secretOf: async () => null },
    ...{ hasEnded: () => false, originOf: () => undefined },
  });
  const send = (what: string) => attempt(asNobody("design.styles", { what }));
  await send("a call that is answered");
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
  await send("an odd call");
  const later = Array.from({ length: 20 }, () => send("another"));
  const refused = (await Promise.allSettled(later)).concat(await Promise.allSettled([send("the last")]));
  const why = refused.map((one) => (one.status === "rejected" ? `${one.reason}` : "")).find((text) => text !== "");
  expect(why).toMatch(/the target has stopped answering, since GET \/v1\/design\/styles, an odd call, no Origin/);
  await close();
}, 20_000);
