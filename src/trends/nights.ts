/** A night as it is kept: one line of JSON. What is read of a folder of nights is checked, because others write there too. */
import { counted } from "../contract/lists.ts";
import type { ClaimVerdict, Verdict } from "../history/run-document.ts";

export const NIGHT_SCHEMA = "floodgate/night@1";

/** `night.json`. `measurements`: value, low, high and calls by stage and name; `left_out`: how many are not here. */
export type Night = {
  schema: typeof NIGHT_SCHEMA;
  id: string;
  profile: string;
  seed: number;
  /** The commit of Floodgate; of the reference platform, if that is the target. */
  commit: string | null;
  started_at: string;
  duration_ms: number;
  verdict: Verdict;
  exit_code: number;
  target: { name: string; embedded: boolean };
  host: { cores: number; cpu: string };
  claims: Record<ClaimVerdict, number>;
  failed: string[];
  left_out: number;
  measurements: Record<string, (number | null)[]>;
  /** The commit of the deployment, as `trends add --commit` states it. */
  deployed?: string;
};

/** A commit or a tag that may stand in a command. */
export const COMMIT = /^\w[\w.+-]{0,63}$/;
const VERDICTS: readonly unknown[] = ["pass", "fail", "inconclusive"];

const isText = (value: unknown): value is string => typeof value === "string" && value.length <= 200;
const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isCommit = (value: unknown): boolean => typeof value === "string" && COMMIT.test(value);
const isValue = (value: unknown): boolean => {
  const [first, ...others] = Array.isArray(value) ? value : [];
  return isNumber(first) && others.every((one) => one === null || isNumber(one));
};

/** Says why a value is no night; `null` if it is one. */
export const whyNoNight = (value: unknown): string | null => {
  if (typeof value !== "object" || value === null) return "it is no JSON object";
  const { schema, target, host, measurements, ...of } = value as Partial<Record<keyof Night, unknown>>;
  if (schema !== NIGHT_SCHEMA)
    return `its schema is ${JSON.stringify(schema) ?? "not stated"}, expected "${NIGHT_SCHEMA}"`;
  const [on, by] = [target, host].map((one) => (one ?? {}) as Record<string, unknown>) as [
    Record<string, unknown>,
    Record<string, unknown>,
  ];
  const isMoment = isText(of.started_at) && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(of.started_at);
  const checks = {
    id: isText(of.id),
    profile: isText(of.profile),
    started_at: isMoment,
    duration_ms: isNumber(of.duration_ms),
    verdict: VERDICTS.includes(of.verdict),
    commit: of.commit === null || isCommit(of.commit),
    deployed: of.deployed === undefined || isCommit(of.deployed),
    target: isText(on.name) && typeof on.embedded === "boolean",
    host: isNumber(by.cores) && isText(by.cpu),
    failed: Array.isArray(of.failed) && of.failed.every(isText),
    measurements: typeof measurements === "object" && Object.values(measurements ?? {}).every(isValue),
  };
  const wrong = Object.entries(checks).flatMap(([field, isRight]) => (isRight ? [] : [field]));
  return wrong.length === 0 ? null : `${counted(wrong.length, "field")} of it cannot be read: ${wrong.join(", ")}`;
};

/** A file of a folder of nights holds a month, so that no file grows for ever and none is rewritten. */
export const monthFile = ({ started_at: at }: Night): string => `${at.slice(0, 7)}.ndjson`;
export const isMonthFile = (name: string): boolean => /^\d{4}-\d\d\.ndjson$/.test(name);

const parsed = (line: string): unknown => {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
};

/**
 * The nights of some files, in order of time, each run once, as it was added first. `unread`: a sentence for each line that
 * is no night, such as one that was cut off.
 */
export const readNights = (files: readonly { name: string; text: string }[]) => {
  const nights = new Map<string, Night>();
  const unread: string[] = [];
  for (const { name, text } of files) {
    for (const [at, line] of text.split("\n").entries()) {
      if (line.trim() === "") continue;
      const value = parsed(line);
      const why = value === undefined ? "it is cut off, or no JSON" : whyNoNight(value);
      const night = value as Night;
      if (why !== null) unread.push(`${name}, line ${at + 1}: ${why}`);
      else if (!nights.has(night.id)) nights.set(night.id, night);
    }
  }
  const inOrder = [...nights.values()].sort((a, b) => (a.started_at + a.id < b.started_at + b.id ? -1 : 1));
  return { nights: inOrder, unread };
};
