/** `night.json`: the part of a night's run that is kept to compare nights. */
import type { Measurement, RunDocument } from "../history/run-document.ts";
import { utf8Bytes } from "./escape.ts";
import { countByVerdict } from "./verdict.ts";

const BYTES_MOST = 4_096;
const FAILED_MOST = 12;
const DIGITS = 4;

/** Measurements by which nights are compared come first; others follow while there is room. */
const FIRST: readonly string[] = [
  ...["knee_rps", "knee_after_rps", "goodput_retention", "goodput_retention_5", "goodput_retention_10"],
  ...["excess_sheds", "false_sheds", "reaction_ms", "recovery_ms", "hysteresis", "oscillation", "amplification"],
  ...["refusal_price", "wasted_work", "isolation", "jain_index", "slots_leaked", "capacity_rps"],
  ...["latency_ms_p99", "ttfe_ms_p99", "event_gap_ms_p99", "refusal_ms_p99", "achieved_rate"],
];
/** Every stage has these; without an interval they show little, so they come last. */
const EVERYWHERE: readonly string[] = ["amplification", "jain_index"];

const rankOf = ({ name, low }: Measurement): number =>
  !FIRST.includes(name) || (low === null && EVERYWHERE.includes(name)) ? FIRST.length : FIRST.indexOf(name);

const short = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(DIGITS)));

/** At most 4 KB. `measurements`: value, low, high and calls by stage and name; `left_out`: how many did not fit. */
export const nightJson = ({ claims, measurements, ...run }: RunDocument): string => {
  const { id, profile, seed, commit, started_at, duration_ms, verdict, exit_code, environment } = run;
  const failed = claims.filter((claim) => claim.level === "must" && claim.verdict === "fail").map((claim) => claim.id);
  const night = {
    ...{ schema: "floodgate/night@1", id, profile, seed, commit, started_at, duration_ms, verdict, exit_code },
    target: { name: run.target.name.slice(0, 100), embedded: run.target.embedded },
    host: { cores: environment.cores, cpu: environment.cpu },
    claims: countByVerdict(claims),
    failed: failed.slice(0, FAILED_MOST),
    left_out: measurements.length,
    measurements: {} as Record<string, (number | null)[]>,
  };
  let text = JSON.stringify(night);
  for (const { name, stage, value, low, high, n } of measurements.toSorted((a, b) => rankOf(a) - rankOf(b))) {
    night.measurements[`${stage}/${name}`] = [short(value), short(low), short(high), n];
    night.left_out -= 1;
    const longer = JSON.stringify(night);
    if (utf8Bytes(longer) + 1 > BYTES_MOST) break;
    text = longer;
  }
  return `${text}\n`;
};
