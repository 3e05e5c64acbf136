/** Page, run.json, OTLP and objectives count the same answers as whole, however their streams ended, folded or not. */
import { expect, test } from "vitest";
import { isWhole } from "../gate/block.ts";
import { callFold } from "../history/call-fold.ts";
import type { CallLine, FoldLine } from "../history/line.ts";
import { measureStage } from "../history/measure-stage.fixture.ts";
import { objectivesTally } from "../history/objective-verdicts.ts";
import { parseObjectives } from "../history/objectives.ts";
import { countOf, seriesFold } from "../history/series.ts";
import { otlpMetrics } from "./otlp-metrics.ts";

const stream = (more: Partial<CallLine>): CallLine => ({
  ...{ type: "call", id: "c", stage: "s", driver: "open-loop", org: "a", route: "chat.control", attempt: 0 },
  ...{ intended_us: 0, started_us: 0, connect_us: 0, sent_us: 0, first_us: 10_000, done_us: 50_000 },
  ...{ outcome: "200", clock_error_us: 0, events: 3, first_event_us: 10_000 },
  ...more,
});

type Otlp = {
  resourceMetrics: {
    scopeMetrics: { metrics: { name: string; histogram?: { dataPoints: { count: string }[] } }[] }[];
  }[];
};

/** How many whole answers each of them has counted of the lines. */
const countedBy = (lines: readonly (CallLine | FoldLine)[]): Record<string, number> => {
  const series = seriesFold();
  const otlp = otlpMetrics({}, 0);
  // Only what never came as a whole is above it.
  const objectives = objectivesTally(parseObjectives("p50<=1000000ms"));
  for (const line of lines) {
    series.see(line);
    otlp.see(line);
    if (line.type === "fold") objectives.fold(line);
    else objectives.see(line);
  }
  const { metrics } = (otlp.toOtlp(1) as Otlp).resourceMetrics[0]!.scopeMetrics[0]!;
  const latency = metrics.find(({ name }) => name === "floodgate_latency_ms")?.histogram?.dataPoints ?? [];
  const [verdict] = objectives.verdicts();
  return {
    "run.json": measureStage(lines, { stage: "s" }).measurements.find(({ name }) => name === "latency_ms_max")?.n ?? 0,
    page: (series.end().stages[0]?.latency ?? []).reduce((sum, bin) => sum + countOf(bin), 0),
    otlp: latency.reduce((sum, { count }) => sum + Number(count), 0),
    objectives: verdict!.n - verdict!.against,
  };
};

const folded = (call: CallLine): (CallLine | FoldLine)[] => {
  const out: (CallLine | FoldLine)[] = [];
  const fold = callFold({ emit: (line) => void out.push(line), looksWrong: () => false });
  fold.see(call);
  fold.end();
  return out;
};

test.each<[what: string, line: Partial<CallLine>, whole: boolean, good: boolean]>([
  ["its last event", { ended: "done" }, true, true],
  ["an end in order, by an event with a name of its own", { ended: "eof" }, true, true],
  ["an error event", { ended: "error_event", outcome: "200 error" }, true, false],
  ["no event at all", { ended: "eof", events: 0, outcome: "200 empty" }, false, false],
  ["no event at all, as it was recorded before", { ended: "eof", events: 0 }, false, false],
  ["an end in order without the event that is stated", { ended: "truncated", error: "no_last_event" }, false, false],
  ["a reset", { ended: "reset" }, false, false],
  ["a silence", { ended: "timeout" }, false, false],
  ["its reader gone", { ended: "closed_by_client", aborted: true }, false, false],
  ["its reader gone after the last event", { ended: "done", aborted: true }, false, false],
])("a stream that ended with %s is counted the same everywhere", (_what, more, whole, good) => {
  const line = stream(more);
  const n = whole ? 1 : 0;
  const everywhere = { "run.json": n, page: n, otlp: n, objectives: n };
  expect(countedBy([line])).toEqual(everywhere);
  expect(countedBy(folded(line))).toEqual(everywhere);
  // Goodput of the gate asks for a success as well.
  expect(isWhole(line)).toBe(good);
});
