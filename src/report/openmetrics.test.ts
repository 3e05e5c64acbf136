import { describe, expect, test } from "vitest";
import { openMetrics } from "./formats.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeRun } from "./made-run.fixture.ts";

const SAMPLE = /^([a-z_]+)(?:\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)+)\})? (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)$/;

/**
 * Each family once and together, each series once, each line of the grammar, `# EOF` at the end. The types are those that the
 * older text format has as well: its readers refuse a file with any other, from the first line on.
 */
const assertValid = (text: string): Map<string, number> => {
  expect(text.endsWith("# EOF\n")).toBe(true);
  const families = new Set<string>();
  const series = new Map<string, number>();
  let family = "";
  for (const line of text.slice(0, -"# EOF\n".length).split("\n").slice(0, -1)) {
    const type = /^# TYPE ([a-z_]+) (gauge|counter)$/.exec(line);
    if (type !== null) {
      family = type[1]!;
      expect(families.has(family)).toBe(false);
      families.add(family);
    } else if (line.startsWith("# ")) {
      expect(line).toMatch(new RegExp(`^# (?:HELP|UNIT) ${family} `));
    } else {
      const sample = SAMPLE.exec(line);
      expect(sample, line).not.toBeNull();
      expect([family, `${family}_total`]).toContain(sample![1]);
      const key = line.slice(0, line.lastIndexOf(" "));
      expect(series.has(key), key).toBe(false);
      series.set(key, Number(sample![3]));
    }
  }
  return series;
};

describe("metrics.prom", () => {
  test("is valid, and tells claims by verdict, calls by outcome and measurements", () => {
    const series = assertValid(openMetrics(madeRun()));
    expect(series.get('floodgate_claims{verdict="fail",level="must"}')).toBe(1);
    expect(series.get('floodgate_claims{verdict="fail",level="info"}')).toBe(0);
    expect(
      series.get('floodgate_calls_total{stage="chat-past-capacity",driver="k6",outcome="429 b2b_overloaded"}'),
    ).toBe(611);
    expect(series.get('floodgate_measurement{name="latency_ms_p99",stage="steady-mix",unit="ms"}')).toBe(31.7);
    expect(series.get('floodgate_run_verdict{floodgate_run_verdict="fail"}')).toBe(1);
  });

  test("an interval that is unknown has no sample", () => {
    expect(openMetrics(madeRun())).not.toMatch(/measurement_low\{name="latency_ms_p999"/);
  });

  test("a stage that occurs twice is one series, its calls added up", () => {
    const run = madeRun();
    const series = assertValid(
      openMetrics({
        ...run,
        stages: [...run.stages, ...run.stages],
        measurements: [...run.measurements, ...run.measurements],
      }),
    );
    expect(series.get('floodgate_calls_total{stage="steady-mix",driver="open-loop",outcome="200"}')).toBe(2824);
  });

  test("is valid for a run of nothing and whatever a server said", () => {
    assertValid(openMetrics(madeRun({ claims: [], stages: [], measurements: [], faults: [] })));
    const stage = { ...madeRun().stages[0]!, name: HOSTILE, by_outcome: { [HOSTILE]: 3 } };
    assertValid(openMetrics(madeRun({ stages: [stage], profile: HOSTILE })));
  });
});
