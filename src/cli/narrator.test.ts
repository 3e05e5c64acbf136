import { expect, test, vi } from "vitest";
import type { CallLine, FaultLine, Line } from "../history/line.ts";
import { createLiveView, isTerminal, narrator } from "./printing.ts";

const call = (outcome: string): Line => ({ type: "call", outcome }) as CallLine;
const fault = (phase: FaultLine["phase"]): Line =>
  ({ type: "fault", experiment: "limiter-refused", link: "limiter", fault: "refused", phase }) as FaultLine;

test("a stage shows how far it is, what came of its calls, refusals by subcode, and what is broken", () => {
  const view = createLiveView();
  expect(view.frame(0)).toEqual([]);
  view.begin("stage 1 of 2: chat-past-capacity (k6)", 0);
  expect(view.frame(1_000)).toEqual(["  … stage 1 of 2: chat-past-capacity (k6), 1 s"]);
  view.progress("chat-past-capacity: 9 of 20 calls done");
  for (let i = 0; i < 3; i += 1) view.see(call("200"), 4_000);
  for (let i = 0; i < 6; i += 1) view.see(call("429 b2b_overloaded"), 4_000);
  view.see(fault("injected"), 4_100);
  expect(view.frame(5_000)).toEqual([
    "  … chat-past-capacity: 9 of 20 calls done, 5 s",
    "    ended     3/s: 1/s answered, 2/s refused",
    "    refused   429 b2b_overloaded 2/s",
    "    broken    limiter refused",
  ]);
  view.see(fault("healed"), 5_100);
  // The rates are those of the last seconds.
  expect(view.frame(8_000)).toEqual(["  … chat-past-capacity: 9 of 20 calls done, 8 s"]);
});

test("a progress text that is wider than the terminal is cut before the time", () => {
  const view = createLiveView();
  view.begin("looking for toxiproxy", 0);
  view.progress("building toxiproxy with go1.26.8; the first time takes minutes, because Go compiles it");
  const [line = ""] = view.frame(123_000);
  expect(line).toMatch(/^ {2}… building toxiproxy with go1\.26\.8.*, 123 s$/);
  expect(line.length).toBeLessThan(80);
});

test("a stage that is not played says why, and one that is played what came of it", () => {
  const said: string[] = [];
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => said.push(`${text}`) > 0);
  try {
    const told = narrator({ quiet: false, title: "run nightly", seed: 1 });
    const lacks = { id: "reached/keys-reset", level: "must", verdict: "skipped", reason: "skipped: it lacks a proxy" };
    const ended = (sent: number, claims: object[]) =>
      told.stage({ summary: { calls: { sent } }, claims } as Parameters<typeof told.stage>[0]);
    ended(0, [lacks]);
    ended(9, [lacks, { ...lacks, verdict: "pass" }]);
    told.end();
    expect(said).toEqual([
      "  nothing was sent; skipped: it lacks a proxy\n",
      "  9 calls, 1 of 2 claims passed, 1 skipped\n",
    ]);
  } finally {
    write.mockRestore();
  }
});

test.each([
  ["a terminal", { TERM: "xterm" }, true, true],
  ["a dumb terminal", { TERM: "dumb" }, false, false],
  ["NO_COLOR", { TERM: "xterm", NO_COLOR: "1" }, false, false],
  ["the terminal of a CI job", { TERM: "xterm", GITLAB_CI: "true" }, true, false],
])("%s gets colours and lines that are drawn anew only if it can show them", (_, env, colours, draws) => {
  vi.useFakeTimers();
  for (const name of ["CI", "NO_COLOR", "GITHUB_ACTIONS", "GITLAB_CI", "RUNNER_TRACKING_ID"])
    vi.stubEnv(name, undefined);
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  const isTty = process.stderr.isTTY;
  process.stderr.isTTY = true;
  let said = "";
  const write = vi.spyOn(process.stderr, "write").mockImplementation((text) => {
    said += text;
    return true;
  });
  try {
    expect(isTerminal()).toBe(colours);
    const told = narrator({ quiet: false, title: "run smoke", seed: 1 });
    told.step("stage 1 of 1: smoke");
    vi.advanceTimersByTime(40_000);
    told.end();
    expect(said.includes("\u001b["), said).toBe(draws);
    expect(said.match(/… /g)?.length ?? 0).toBeGreaterThanOrEqual(draws ? 70 : 1);
    expect(said.match(/… /g)?.length ?? 0).toBeLessThanOrEqual(draws ? 90 : 2);
  } finally {
    write.mockRestore();
    process.stderr.isTTY = isTty;
    vi.unstubAllEnvs();
    vi.useRealTimers();
  }
});
