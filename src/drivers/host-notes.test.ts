import { expect, test } from "vitest";
import { parseNetstat, parseStat, watchHost } from "./host-notes.ts";

test("counters of the network stack are read by name from two lines", () => {
  const text = "TcpExt: SyncookiesSent ListenOverflows TCPSynRetrans\nTcpExt: 1 22 333\nIpExt: InNoRoutes\nIpExt: 5\n";
  expect(parseNetstat(text)).toMatchObject({ ListenOverflows: 22, TCPSynRetrans: 333 });
  expect(parseNetstat("")).toEqual({});
});

test("stolen time is the eighth figure, and guest time is not counted twice", () => {
  expect(parseStat("cpu  10 0 5 80 1 0 1 3 7 0\ncpu0 1 1 1 1\n")).toEqual({ total: 100, steal: 3 });
  expect(parseStat("nothing")).toBeNull();
});

test("a loop that stood still is told", async () => {
  const told = watchHost();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const untilMs = performance.now() + 120;
  while (performance.now() < untilMs);
  await new Promise((resolve) => setTimeout(resolve, 50));
  const notes = told();
  expect(notes.event_loop_lag_ms_max).toBeGreaterThan(80);
  // How much of a core it got in that time is for the machine to say.
  expect(notes.cpu_share).toBeGreaterThan(0);
});
