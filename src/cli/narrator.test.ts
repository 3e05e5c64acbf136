import { expect, test } from "vitest";
import type { CallLine, FaultLine, Line } from "../history/line.ts";
import { createLiveView } from "./printing.ts";

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
