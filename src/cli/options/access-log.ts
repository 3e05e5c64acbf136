/** `load --profile`: the rate of a load over time, from a named profile or an access log. */
import { clip, oneLine } from "../../report/escape.ts";
import { count, counted, duration, share } from "../../report/figures.ts";
import { LOG_FORMAT_NAMES, LOG_FORMATS } from "../../run/access-log/log-formats.ts";
import * as reading from "../../run/access-log/read-log.ts";
import { UsageError } from "../../run/exit-codes.ts";
import type { ScenarioWish } from "../../run/suites/suites.ts";
import { redact } from "../../supervision/redaction.ts";
import { UserFileError } from "../../supervision/user-file.ts";
import { PROFILES } from "../../workload/load-profiles.ts";

export const PROFILE_NAMES = Object.keys(PROFILES).join(", ");

export type ProfileOptions = Partial<Record<"profile" | "logFormat" | "timeField", string>> &
  Partial<Record<"rate" | "duration", number>> & { skipUnreadable?: true };

/** The longest replay; a longer one is refused before anything is sent. */
const PLAYED_MAX_DAYS = 7;
const SHOWN_CHARS = 160;

/** A log line for the terminal: cut, without addresses, queries and long tokens, which may be secret or personal. */
const shown = (line: string): string => {
  const text = redact(line.slice(0, 20 * SHOWN_CHARS))
    .replace(/\b(?:\d{1,3}\.){3}\d{1,3}\b/g, "[address]")
    .replace(/(?:\b[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b|[0-9a-f:]*::[0-9a-f:]+/gi, "[address]")
    .replace(/[\w.+-]+@[\w-]+\.[\w.-]+/g, "[address]")
    .replace(/\?[^\s"'?]+/g, "?[query]")
    .replace(/\b(?:Bearer|Basic)\s+[^\s"',]+/gi, "[masked]")
    .replace(/[\w+=~%-]{20,}/g, (token) => (/\d/.test(token) ? "[masked]" : token));
  return clip(oneLine(text), SHOWN_CHARS);
};

const OVERRIDE =
  "Name the format with --log-format, or with --time-field the field that holds the start of a call: a member of a JSON line, a key, or the number of a column";

const DAY_MS = 86_400_000;
const days = (ms: number): string => `${count(ms / DAY_MS)} days`;
const moment = (ms: number): string => new Date(ms).toISOString();

const unknownText = (line: number, text: string, lines: number, { timeField, format }: reading.LogOptions): string => {
  const asked = format === undefined ? "its format is not known" : `no line can be read as ${format}`;
  const what = timeField === undefined ? asked : `no line has a moment in the field ${oneLine(timeField)}`;
  const isDocument = /^\[\s*(?:\{.*)?$/.test(text) || text === "{";
  const aboutOf = (called: string): string | undefined => LOG_FORMATS.find(({ name }) => name === called)?.of;
  const formats = LOG_FORMAT_NAMES.map((name) => `  ${name.padEnd(15)}${aboutOf(name)}`);
  const help = isDocument
    ? "Expected a line for each call; this looks like one JSON document. Turn it into lines, such as by: jq -c '.[]'"
    : `Looked for, one of them in at least half of the lines:\n${formats.join("\n")}\n${OVERRIDE}.`;
  return `${what}, among the first ${counted(lines, "line")}; line ${line} is: ${shown(text)}\n${help}`;
};

const refusalText = (refusal: reading.LogRefusal, wanted: reading.LogOptions): string => {
  switch (refusal.code) {
    case "format-unknown":
      return unknownText(refusal.line, refusal.text, refusal.lines, wanted);
    case "unreadable": {
      const { unreadable, lines, format, line, text } = refusal;
      const most = `cannot be read as ${format.name}, more than ${100 * reading.UNREADABLE_SHARE_MAX} %`;
      return `${count(unreadable)} of ${counted(lines, "line")} (${share(unreadable, lines)}) ${most}. The first is line ${line}: ${shown(text)}\nExpected ${format.of}. --skip-unreadable leaves such lines out. ${OVERRIDE}.`;
    }
    case "too-few-calls":
      return refusal.lines === 0
        ? "there is no line in it; expected a line for each call"
        : `it has ${counted(refusal.calls, "call")}; expected two or more, because one alone has no course`;
    case "too-many-calls":
      return `it has more than ${counted(refusal.most, "call")}, which is what is kept in memory. Split it by time`;
    case "span-too-long": {
      const { line, atMs, silenceMs, spanMs, mostMs } = refusal;
      const place = `line ${line} is of ${moment(atMs)}. Take out what is out of place there`;
      return `it spans ${days(spanMs)}, more than the ${count(mostMs / DAY_MS)} that are replayed, with nothing for ${days(silenceMs)}: ${place}`;
    }
  }
};

/** Says why a replay would take too long or have too few calls at this rate or for this time; `null` if neither. */
const lengthText = ({ atMs, facts, outermost }: reading.ReadLog, { rate, duration: durationS }: ProfileOptions) => {
  const firstMs = atMs[0] as number;
  const spanS = ((atMs.at(-1) as number) - firstMs) / 1000;
  const wholeS = rate === undefined ? spanS : (atMs.length - 1) / rate;
  const playedMs = 1000 * Math.min(wholeS, durationS ?? wholeS);
  if (playedMs > PLAYED_MAX_DAYS * DAY_MS) {
    const silence = `its longest silence is ${duration(1000 * facts.longest_silence_s)}, beyond which line ${outermost.line} is of ${moment(outermost.atMs)}`;
    return `its replay would take ${days(playedMs)}, more than the ${PLAYED_MAX_DAYS} that are played; ${silence}. --rate makes it faster, --duration plays its beginning`;
  }
  if (durationS === undefined || wholeS <= durationS) return null;
  const mostMs = 1000 * durationS * (spanS / wholeS);
  if (atMs.findLastIndex((ms) => ms - firstMs < mostMs) >= 1) return null;
  return `in the first ${duration(1000 * durationS)} of its replay there is one call alone. Choose a longer --duration`;
};

const replayOf = async (path: string, options: ProfileOptions): Promise<ScenarioWish> => {
  const refused = (text: string): UsageError => new UsageError(`--profile ${oneLine(path)}: ${text}`);
  const wanted: reading.LogOptions = { ...options, format: options.logFormat };
  const log = await reading.readAccessLog(path, wanted).catch((error: Error) => {
    if (!(error instanceof UserFileError)) throw error;
    throw refused(`${error.message}. Expected one of ${PROFILE_NAMES}, or an access log`);
  });
  const why = "code" in log ? refusalText(log, wanted) : lengthText(log, options);
  if (why !== null) throw refused(why);
  const { atMs, facts } = log as reading.ReadLog;
  return { replayOfMs: atMs, replayed: facts };
};

/** A load profile by its name, or an access log to be replayed; of a log, only the moments of its calls are kept. */
export const profileOf = async (options: ProfileOptions): Promise<ScenarioWish> => {
  const { profile, logFormat, timeField, skipUnreadable } = options;
  const isName = profile !== undefined && Object.hasOwn(PROFILES, profile);
  if (profile !== undefined && !isName) return replayOf(profile, options);
  const ofLog = { "log-format": logFormat, "time-field": timeField, "skip-unreadable": skipUnreadable };
  const [first] = Object.entries(ofLog).find(([, value]) => value !== undefined) ?? [];
  if (first !== undefined) throw new UsageError(`--${first} is about an access log; give its path with --profile`);
  return isName ? { loadProfile: profile } : {};
};

export { LOG_FORMAT_NAMES };
