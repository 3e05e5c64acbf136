import { describe, expect, test } from "vitest";
import type { CallLine, Line } from "../history/line.ts";
import { withAllTimes } from "./read-run.ts";

const older = (id: string, more: Partial<CallLine> = {}): Line =>
  ({
    type: "call",
    id,
    stage: "s",
    driver: "k6",
    org: "o",
    route: "chat.control",
    intended_us: 1_000,
    sent_us: 1_500,
    first_us: 9_000,
    done_us: 20_000,
    outcome: "200",
    clock_error_us: 0,
    ...more,
  }) as Line;

describe("lines of an older run", () => {
  test("get the times that they lack by what their own stood for", () => {
    const stream = withAllTimes(older("r.s.c-7", { ended: "done", events: 3 }));
    expect(stream).toMatchObject({
      started_us: 1_500,
      connect_us: 0,
      sent_us: 1_500,
      first_event_us: 9_000,
      attempt: 0,
    });
    expect(withAllTimes(older("r.s.c-7"))).not.toHaveProperty("first_event_us");
    expect(withAllTimes(older("r.s.c-7", { ended: "truncated", events: 0 }))).not.toHaveProperty("first_event_us");
  });

  test.each([
    ["r.s.c-7", { attempt: 0 }],
    ["r.s.c-7r2", { attempt: 2 }],
    ["r.s.c-7_1", { attempt: 0, unscheduled: "step" }],
    ["r.s.c-7_1r1", { attempt: 1, unscheduled: "step" }],
    ["r.s.c-s3", { attempt: 0, unscheduled: "mint" }],
    ["r.s.c-v12s3", { attempt: 0, unscheduled: "mint" }],
  ])("say what made the call by the end of its id: %s", (id, wanted) => {
    const { attempt, unscheduled } = withAllTimes(older(id)) as CallLine;
    expect({ attempt, ...(unscheduled === undefined ? {} : { unscheduled }) }).toEqual(wanted);
  });

  test("of today stay as they are, and faults do", () => {
    const line = older("r.s.c-7", { started_us: 1_200, connect_us: 1_300, attempt: 1 });
    expect(withAllTimes(line)).toBe(line);
    const fault = { type: "fault", stage: "s" } as Line;
    expect(withAllTimes(fault)).toBe(fault);
  });
});
