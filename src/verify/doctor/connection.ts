/** What the answers of a deployment and of the file's other addresses say: protocol, clock, latency, control planes. */
import { queryPrometheus } from "../../client/control-call.ts";
import { readGauges, readLedger, readUsed } from "../../client/control-planes.ts";
import { toldOf } from "../../client/network-errors.ts";
import { certificateText, lookAtTls } from "../../client/tls-look.ts";
import { isLoopbackHost, parseHttpUrl } from "../../contract/address.ts";
import { foreignId } from "../../contract/foreign-text.ts";
import { median } from "../../history/statistics/statistics.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { openToxiproxy } from "../../tools/toxiproxy.ts";
import { type Finding, finding, okIf } from "./finding.ts";
import { type Answered, headerOf, isAdmitted, type SingleCalls, tried } from "./single-calls.ts";

const LATENCY_CALLS = 10;
const SKEW_MS_MAX = 1_000;
const DAYS_LEFT_MIN = 14;
const DAY_MS = 24 * 3_600_000;

export const protocolFindings = async (target: Target, secrets: Secrets, nowMs: number): Promise<Finding[]> => {
  const isH2Wished = target.transport?.protocol === "h2";
  if (!target.base_url.startsWith("https:")) {
    const { host } = parseHttpUrl(target.base_url);
    if (isH2Wished) {
      const text = "HTTP/1.1 without TLS; transport.protocol says h2, which is agreed upon over TLS only";
      return [finding("wrong", "protocol", text, 'write "h1", or an https:// address')];
    }
    const isHome = isLoopbackHost(host);
    const text = `HTTP/1.1 without TLS${isHome ? "" : `: keys travel to ${host} in clear`}`;
    return [okIf(isHome, "protocol", text, "write https:// if it can")];
  }
  const seen = await lookAtTls(target, secrets);
  if (seen === null) return [finding("info", "protocol", "not looked at: the way leads through transport.proxy")];
  if ("error" in seen) {
    const { text, todo } = toldOf("the handshake failed", seen.error);
    return [finding("warn", "TLS", text, todo)];
  }
  const offers = seen.alpn === "h2" ? "HTTP/2 is offered" : "HTTP/1.1 alone is offered";
  const protocol =
    isH2Wished && seen.alpn !== "h2"
      ? finding("wrong", "protocol", `${offers}; transport.protocol says h2`, 'write "h1" there')
      : finding("ok", "protocol", `${offers}; ${isH2Wished ? "HTTP/2" : "HTTP/1.1"} is used (transport.protocol)`);
  const days = seen.endsAtMs === null ? null : Math.floor((seen.endsAtMs - nowMs) / DAY_MS);
  const ends = days === null || days >= 0 ? `ends in ${days} days` : `ended ${-days} days ago`;
  const text = `${certificateText(seen)}${days === null ? "" : `, ${ends}`}`;
  if (seen.distrust !== null) {
    const { text: distrusted, todo } = toldOf(`${text}; not trusted`, seen.distrust);
    return [protocol, finding("silent", "TLS", distrusted, todo)];
  }
  return [protocol, okIf(days === null || days >= DAYS_LEFT_MIN, "TLS", text, "have the certificate renewed")];
};

/** A `Date` has whole seconds, and is written at some moment between `sentMs` and `heardMs`. */
export type DatedAnswer = { readonly sentMs: number; readonly heardMs: number; readonly date: string | undefined };

/** `offsetMs`: their clock minus ours. Returns a finding if no answer has a date or the dates contradict each other. */
export const skewOf = (answers: readonly DatedAnswer[]): { offsetMs: number; errorMs: number } | Finding => {
  const dated = answers.flatMap(({ sentMs, heardMs, date = "" }) => {
    const atMs = Date.parse(date);
    return Number.isNaN(atMs) ? [] : [{ low: atMs - heardMs, high: atMs + 1_000 - sentMs }];
  });
  const low = Math.max(...dated.map((one) => one.low));
  const high = Math.min(...dated.map((one) => one.high));
  if (dated.length === 0) return finding("info", "clock", "unknown: no answer has a Date");
  if (low > high)
    return finding("warn", "clock", "the Dates of its answers contradict each other: several clocks, or a cache");
  return { offsetMs: (low + high) / 2, errorMs: (high - low) / 2 };
};

const seconds = (ms: number): string => (ms / 1000).toFixed(2);

export const clockFinding = (answers: readonly Answered[]): Finding => {
  const dated = answers.flatMap((sent): DatedAnswer[] => {
    const { status, sentUs, doneUs } = sent.answer;
    return status === null ? [] : [{ sentMs: sentUs / 1000, heardMs: doneUs / 1000, date: headerOf(sent, "date") }];
  });
  const skew = skewOf(dated);
  if ("state" in skew) return skew;
  const { offsetMs, errorMs } = skew;
  const [offMs, side] = offsetMs < 0 ? [-offsetMs, "behind"] : [offsetMs, "ahead of"];
  const text = `${seconds(offMs)} s ${side} ours, give or take ${seconds(errorMs)} s`;
  return okIf(offMs - errorMs <= SKEW_MS_MAX, "clock", text, "set both by NTP: tokens and sessions end by them");
};

export const echoFinding = (answers: readonly Answered[]): Finding => {
  const whole = answers.filter(({ answer }) => answer.status !== null);
  const echoed = whole.filter((sent) => headerOf(sent, "x-request-id") === sent.id).length;
  if (whole.length > 0 && echoed === whole.length) return finding("ok", "X-Request-Id", "is echoed");
  const text = echoed === 0 ? "is not echoed" : `is echoed in ${echoed} of ${whole.length} answers`;
  return finding("info", "X-Request-Id", `${text}: a call without it cannot be matched to a line of its logs`);
};

/** What `Alt-Svc` (RFC 7838) offers beside the way that our calls take. */
export const otherWayFinding = (answers: readonly Answered[]): Finding[] => {
  if (!answers.some((sent) => /(?:^|,)\s*h3(?:-\d+)?=/.test(headerOf(sent, "alt-svc") ?? ""))) return [];
  const text = "is offered (Alt-Svc), and browsers take it; all calls of ours go over TCP and say nothing of it";
  return [finding("info", "HTTP/3", text)];
};

/** Measures ten GETs of the style catalog, one after the other, with the server key if there is one to use. */
export const latencyFinding = async (target: Target, calls: SingleCalls, mayUseKey: boolean): Promise<Finding> => {
  const asServer = mayUseKey && target.credentials?.server !== undefined;
  const credential = asServer ? ({ as: "server", of: "role:server" } as const) : ({ as: "none" } as const);
  const sent: Answered[] = [];
  while (sent.length < LATENCY_CALLS && calls.left() > 0)
    sent.push(await calls.ask({ route: "design.styles", via: "authorization", credential }));
  const outcomes = [...new Set(sent.map(({ line }) => line.outcome))];
  const tookMs = sent.flatMap((one) => (one.answer.status === null ? [] : one.tookMs));
  const typical = median(tookMs);
  if (typical === null) return finding("skipped", "latency", "no call was left for it, or none was answered");
  const of = outcomes.every(isAdmitted) ? "" : ` (the answers were ${outcomes.join(", ")})`;
  const text = `median ${typical.toFixed(1)} ms, min ${Math.min(...tookMs).toFixed(1)} ms of ${tookMs.length} GETs of the style catalog${of}`;
  return finding("ok", "latency", text);
};

const MEND_IT = "mend the address, or leave it out: what needs it is skipped then";

const NAMES_SHOWN = 20;

const toxiproxyLook = async ({ api_url, proxies = {} }: NonNullable<Target["toxiproxy"]>): Promise<string> => {
  const server = openToxiproxy(api_url);
  try {
    const version = await server.version();
    const there = new Map((await server.list()).map((proxy) => [proxy.name, proxy]));
    const wished = Object.entries(proxies).filter(([, name]) => name !== undefined);
    const absent = wished.filter(([, name]) => !there.has(name)).map(([link, name]) => `${link} (${name})`);
    const shown = [...there.keys()].slice(0, NAMES_SHOWN).map(foreignId).join(", ") || "none";
    const more = there.size > NAMES_SHOWN ? ` and ${there.size - NAMES_SHOWN} more` : "";
    if (absent.length > 0) throw new Error(`it has no proxy for ${absent.join(", ")}; it has ${shown}${more}`);
    const names = wished.map(([, name]) => name);
    const faulty = names.filter((name) => there.get(name)?.enabled !== true || there.get(name)?.toxics.length !== 0);
    if (faulty.length > 0) throw new Error(`a fault is left on ${faulty.join(", ")}: remove it before a run`);
    return `${version}, proxies ${names.join(", ") || "none"} are whole`;
  } finally {
    await server.close();
  }
};

const notRun = ({ faults, fixtures, observers, scale }: Target): Finding[] => {
  const named = [
    ...Object.keys(faults ?? {}).map((name) => `faults.${name}`),
    ...Object.entries(fixtures ?? {}).flatMap(([name, command]) => (command === null ? [] : [`fixtures.${name}`])),
    ...(observers?.ledger === undefined ? [] : ["observers.ledger"]),
    ...(scale === undefined ? [] : ["scale.set", "scale.ready"]),
  ];
  return named.length === 0 ? [] : [finding("skipped", "commands", `${named.join(", ")}: not run by doctor`)];
};

/** Reads control planes, toxiproxy and Prometheus. Changes nothing. */
export const lookAtOthers = async (target: Target, calls: SingleCalls): Promise<Finding[]> => {
  const { control = {}, toxiproxy, observers, credentials = {}, tenants = [] } = target;
  const { keys, limiter, api = [] } = control;
  const findings: Finding[] = [];
  /** `count`: the calls that `seen` sends. `seen` returns what they show and throws what is wrong. */
  const look = async (name: string, count: number, seen: () => Promise<string>): Promise<void> => {
    const counted = async (): Promise<Finding[]> => {
      calls.take(count);
      const wrong = (error: Error): Finding => finding("wrong", name, error.message, MEND_IT);
      return [await seen().then((text) => finding("ok", name, text), wrong)];
    };
    findings.push(...(await tried(name, name, counted)));
  };
  for (const [at, url] of api.entries())
    await look(`control.api[${at}]`, 1, async () => `gauges: ${(await readGauges([url]))[0]?.in_flight} in flight`);
  if (typeof limiter === "string") {
    const lines = async (): Promise<number> => (await readLedger(limiter, "doctor")).length;
    await look("control.limiter", 1, async () => `the ledger can be read (${await lines()} lines of ours)`);
  }
  const org = Object.values(credentials).find((one) => one.org !== undefined)?.org ?? tenants[0]?.org;
  if (typeof keys === "string" && org !== undefined) {
    const used = async (): Promise<unknown> => (await readUsed(keys, org)) ?? "unknown";
    await look("control.keys", 1, async () => `knows ${org} (${await used()} map loads used)`);
  }
  if (toxiproxy !== undefined) await look("toxiproxy", 2, () => toxiproxyLook(toxiproxy));
  const { url, queries } = observers?.prometheus ?? { url: "", queries: {} };
  for (const [name, query] of Object.entries(queries)) {
    await look(`prometheus, ${name}`, 1, async () => {
      const { length: series } = await queryPrometheus(url, query);
      if (series === 0) throw new Error("the query finds no series");
      return `${series} series`;
    });
  }
  return [...findings, ...notRun(target)];
};
