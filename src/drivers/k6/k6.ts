/**
 * The k6 driver: one story, in one process or in several that share the schedule. It hands over credentials, sessions
 * minted beforehand, certificates, a proxy and the schedule; secrets reach k6 in a private file that is removed once it
 * was read. Calls come back as lines of a file that the extension writes.
 */

import { rmSync } from "node:fs";
import { copyFile, mkdtempDisposable, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openApiClient } from "../../client/api-client.ts";
import { lookAtAddresses, placeOf } from "../../client/tls-look.ts";
import { tlsFiles } from "../../client/transport.ts";
import { openBy } from "../../history/reason-codes.ts";
import type { Protocol } from "../../history/run-document.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { fileLimitsOf } from "../../supervision/processes.ts";
import { redactor } from "../../supervision/redaction.ts";
import { CLOCK_READ_US, clockSetUs, createRunClock } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { budgetShare, NOTHING_SPENT, type Stopped } from "../../workload/budget.ts";
import { keysFor, originsOf } from "../../workload/callers/view-of-target.ts";
import { storyCalled } from "../../workload/catalogue.ts";
import * as executor from "../../workload/handover.ts";
import { countArrivals, profileDurationS } from "../../workload/load-profiles.ts";
import { type CredentialRef, credentialName } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { callsEndMs, TIMEOUTS } from "../../workload/timeouts.ts";
import * as port from "../driver.ts";

// biome-ignore format: a list
import { createReader, exitProblem, followLines, k6Outputs, problemsOf, readSummary, startK6, stoppedBy } from "./k6-process.ts";

/** The share of the free memory that k6 may use; the deployment may run on the same machine. */
const MEMORY_SHARE = 0.5;

const OTHER_FILES = 200;

export type K6Setup = {
  k6Path: string;
  scenario: string;
  /** Where k6's summary is kept (the run folder's `k6/`). */
  keepIn?: string;
  /** Number of VUs, in place of the number derived from the profile and the target's limits. */
  vus?: number;
};

/** The hard limit counts, because Go raises its soft limit of open files to it. */
const roomHere = () => {
  return { freeBytes: process.availableMemory(), files: fileLimitsOf("self")?.hard ?? Number.POSITIVE_INFINITY };
};

type VuWish = Pick<port.DriveJob, "profile" | "view" | "seed"> & { story: Story; vus?: number };

/** Returns totals over all segments; each segment gets at least one VU and one call. */
export const vusHere = ({ profile, view, story, seed, vus }: VuWish, segments: number, room = roomHere()) => {
  const { freeBytes, files } = room;
  const concurrency = executor.concurrencyOf(story, seed, view);
  if (vus !== undefined) {
    return { vus: executor.vusFor(profile, vus, concurrency), callsAtOnce: Math.max(1, vus), warnings: [] };
  }
  const wanted = Math.max(segments, executor.callsAtOnceFor(profile, view.limits, concurrency));
  const inMemory = executor.callsThatFit(MEMORY_SHARE * freeBytes, concurrency);
  const inFiles = segments * Math.max(1, files - OTHER_FILES);
  const callsAtOnce = Math.min(wanted, Math.max(segments, Math.min(inMemory, inFiles)));
  const why =
    inFiles < inMemory
      ? `a process may have ${files} files open here: ulimit -n`
      : `half of the ${Math.round(freeBytes / 1e6)} MB that are free here`;
  return {
    vus: Math.max(segments, executor.vusFor(profile, callsAtOnce, concurrency)),
    callsAtOnce,
    warnings: callsAtOnce < wanted ? [executor.tooFewCalls(wanted, callsAtOnce, why)] : [],
  };
};

/** Plans one play of a story, for all its k6 processes; `null` if its schedule has no arrivals. */
const planRun = (setup: K6Setup, drive: port.Drive) => {
  const { job } = drive;
  const story = storyCalled(job.story);
  const arrivals = countArrivals(job.profile, job.arrivals, job.seed);
  if (arrivals === 0) return null;
  const segments = Math.min(drive.segments ?? 1, arrivals);
  const places = vusHere({ ...job, story, vus: setup.vus }, segments);
  return { ...setup, ...drive, ...places, story, timeouts: { ...TIMEOUTS, ...job.timeouts }, arrivals, segments };
};

type K6Run = NonNullable<ReturnType<typeof planRun>> & { folder: string };

/** Warns if a process used its whole share of `callsAtOnce`. `most`: its most calls in flight. */
export const busyWarnings = (callsAtOnce: number, all: readonly { most: number }[]): string[] =>
  all.some(({ most }) => most >= Math.floor(callsAtOnce / all.length)) ? [executor.allPlacesTaken(callsAtOnce)] : [];

/** Extra time for teardown, in which calls end that are still in flight when the VUs are done. */
const TEARDOWN_MS = 10_000;

/** Reads keys and mints sessions once for all processes. */
const credentialsFor = async ({ job, secrets, budget, onLine, story, timeouts }: K6Run) => {
  const { target, view, seed } = job;
  const clock = createRunClock(job.epochUs);
  await using client = await openApiClient({ ...job, secrets, clock, timeouts, budget, onLine, driver: "k6" });
  const keys = keysFor(story, seed, view, target);
  const credentials: executor.HandOver["credentials"] = {};
  for (const { ref } of keys) {
    const value = await client.book.fetch(ref);
    if (value !== null) credentials[credentialName(ref)] = value;
  }
  const sessions: executor.HandOver["sessions"] = {};
  for (const wanted of story.sessions(view)) {
    const ref: CredentialRef = { as: "session", ...wanted };
    await client.book.fetch(ref);
    const held = client.book.sessionOf(ref);
    if (held !== undefined) sessions[credentialName(ref)] = held;
  }
  return { credentials, origins: originsOf(keys), sessions, headers: client.sharedHeaders };
};

/** The input of every process, without its own paths and budget share, and its environment. */
const inputFor = async (run: K6Run) => {
  const { job, secrets, budget, story, timeouts, folder, arrivals, segments, vus, callsAtOnce } = run;
  const { stage, idPrefix, seed, view, target, profile } = job;
  const { momentsUs, ...shape } = profile;
  const momentsPath = momentsUs === undefined ? undefined : join(folder, "moments.json");
  if (momentsPath !== undefined) await writeFile(momentsPath, JSON.stringify(momentsUs));
  const transport = target.transport ?? {};
  const { ca, cert, key } = await tlsFiles(transport, secrets);
  // Go uses HTTP/2 wherever it is offered, and k6 has no option to prevent that.
  const environment: Record<string, string> = transport.protocol === "h2" ? {} : { GODEBUG: "http2client=0" };
  if (ca !== undefined) {
    environment.SSL_CERT_FILE = join(folder, "ca.pem");
    await writePrivateFile(environment.SSL_CERT_FILE, ca);
  }
  // Read by `native/sse/beside.go`.
  if (typeof transport.proxy === "string") {
    environment.FLOODGATE_PROXY = await secrets.read(transport.proxy, "transport.proxy");
  }
  const { base_url, key_management_url, tile_url } = target;
  const { hosts, warnings } = await liveAddresses(target);
  const credentials = await credentialsFor(run);
  // A single process begins when it is ready; several begin at the same moment.
  const startUs = segments === 1 ? undefined : Date.now() * 1000 + executor.startTogetherMs(vus) * 1000;
  const handOver: executor.HandOver = {
    ...{ stage, idPrefix, seed, view, timeouts, ...credentials },
    places: { base_url, key_management_url, tile_url },
    streamEnd: target.stream_end,
    ...{ budget: budget.left(), stated: budget.stated },
    // Samples of gaps are made only if the user sends k6's metrics to an output.
    gapSamples: Object.keys(k6Outputs(process.env)).length > 0,
    callsAtOnce: Math.ceil(callsAtOnce / segments),
    schedule: { profile: shape, arrivals: job.arrivals, startUs, momentsPath },
    options: {
      // Our metrics come from the printed lines, so few tags are kept, for few time series.
      systemTags: ["scenario"],
      summaryTrendStats: ["count", "med", "p(99)", "max"],
      hosts,
      dns: executor.K6_DNS,
      tlsAuth: cert === undefined || key === undefined ? undefined : [{ cert, key }],
      teardownTimeout: `${callsEndMs(timeouts) + TEARDOWN_MS}ms`,
      scenarios: {
        [story.name.replaceAll("-", "_")]: executor.executorFor({
          profile,
          arrivals,
          vus,
          gracefulStopMs: timeouts.callMs,
        }),
      },
    },
  };
  return { handOver, environment, warnings: [...run.warnings, ...warnings] };
};

/** k6's arguments for one segment. With the sequence, a call has the same number as in the whole schedule. */
const segmentArguments = (index: number, of: number): string[] => {
  if (of === 1) return [];
  const sequence = Array.from({ length: of + 1 }, (_, n) => `${n}/${of}`).join(",");
  return [`--execution-segment=${index}/${of}:${index + 1}/${of}`, `--execution-segment-sequence=${sequence}`];
};

const playSegment = async (run: K6Run & Awaited<ReturnType<typeof inputFor>>, index: number, signal: AbortSignal) => {
  const { job, story, timeouts, folder, segments, vus, keepIn } = run;
  const path = (name: string): string => join(folder, `${index}-${name}`);
  const own: Partial<executor.HandOver> = {
    budget: budgetShare(run.handOver.budget ?? {}, index, segments),
    summaryPath: path("summary.json"),
    printPath: path("printed.ndjson"),
  };
  await writePrivateFile(path("handover.json"), JSON.stringify({ ...run.handOver, ...own }));
  await writeFile(path("printed.ndjson"), "", { mode: 0o600 });
  const quietly = ["--quiet", "--no-color", "--log-format=json"];
  const args = ["run", ...quietly, ...segmentArguments(index, segments), run.scenario];
  const variables = { FLOODGATE_HANDOVER: path("handover.json"), FLOODGATE_BUNDLE: path("scenario.js") };
  // k6 reads the wall clock at its start, and runs on from there.
  const clockUs = clockSetUs();
  const k6 = startK6(run.k6Path, args, { ...run.environment, ...variables }, folder);
  await port.register(k6.child, k6, run.onSpawn);
  const { callMs } = timeouts;
  const endsMs = performance.now() + executor.startTogetherMs(vus) + profileDurationS(job.profile) * 1000;
  /** Extends the deadline at each line: a line comes whenever a call ends, and no call outlasts its time-out. */
  const stillComing = (): void => {
    if (!signal.aborted) k6.due(Math.max(0, endsMs - performance.now()) + callMs + port.END_LATE_MS, "end");
  };
  stillComing();
  port.stopWhen(signal, k6, callMs, () => k6.child.kill("SIGUSR1"));
  const reading = { ...job, story, epochUs: job.epochUs + clockUs, clocksApartUs: clockUs === 0 ? 0 : CLOCK_READ_US };
  const { seen, take } = createReader(reading, run.onLine);
  const onLine = (text: string): void => {
    // At the first line k6 has read this file. It is removed now, so that a killed runner leaves no secrets behind.
    if (seen.lines === 0) rmSync(path("handover.json"), { force: true });
    stillComing();
    take(text);
  };
  const following = followLines(path("printed.ndjson"), onLine, k6.exited);
  following.catch(() => undefined);
  const exit = await k6.exited;
  await following;
  const summary = await readSummary(path("summary.json"));
  if (keepIn !== undefined && summary !== null) {
    const name = segments === 1 ? job.stage : `${job.stage}-${index + 1}-of-${segments}`;
    await copyFile(path("summary.json"), join(keepIn, `${name}.json`));
  }
  const { end } = seen;
  const protocols: Protocol[] = [...(end?.http1 ? (["h1"] as const) : []), ...(end?.http2 ? (["h2"] as const) : [])];
  return {
    hasFailed: !signal.aborted && (end?.stopped ?? null) === null && exitProblem(exit) !== null,
    problems: problemsOf(exit, summary, seen),
    stopped: stoppedBy(seen),
    // k6 writes its last line when all its calls have ended.
    isCutOff: end === null,
    most: end?.most ?? 0,
    protocols,
    // A killed k6 has not reported its spending, so every line counts as a request.
    spent: end?.spent ?? { ...NOTHING_SPENT, requests: seen.lines },
    warnings: exit.warnings,
  };
};

type PlayedSegment = Awaited<ReturnType<typeof playSegment>>;

type Played = Pick<PlayedSegment, "problems" | "stopped" | "protocols" | "warnings" | "isCutOff">;

const unplayed = (why: string, stopped: Stopped | null, error?: unknown): Played => {
  const reason =
    error === undefined ? why : `${why}: ${redactor.redact(error instanceof Error ? error.message : String(error))}`;
  const problems = [{ ...openBy(stopped === null ? "program-failed" : "stopped"), reason }];
  return { problems, stopped, protocols: [], warnings: [], isCutOff: true };
};

export const runK6 = async (setup: K6Setup, drive: port.Drive, beside?: () => Promise<void>): Promise<Played> => {
  const { budget } = drive;
  const plan = planRun(setup, drive);
  if (plan === null) return unplayed("the schedule had no arrivals", budget.stopped);
  await using folder = await mkdtempDisposable(join(tmpdir(), "floodgate-k6-"));
  drive.onFolder?.(folder.path);
  const run = { ...plan, folder: folder.path };
  const input = await inputFor(run).catch((error: unknown) =>
    unplayed("nothing could be handed to k6", budget.stopped, error),
  );
  if ("problems" in input) return { ...input, warnings: run.warnings };
  const play = (index: number, signal: AbortSignal): Promise<PlayedSegment> =>
    playSegment({ ...run, ...input }, index, signal).catch(
      // If its files could not be written or read, it is unknown what the process played.
      (error: unknown): PlayedSegment => ({
        ...unplayed("a process of k6 could not be followed", null, error),
        ...{ hasFailed: true, most: 0, spent: NOTHING_SPENT },
      }),
    );
  const all = await port.playParts(run, play, beside);
  const problems = all.flatMap((one) => one.problems);
  const busy = run.callsAtOnce < run.arrivals ? busyWarnings(run.callsAtOnce, all) : [];
  return {
    problems: [...new Map(problems.map((one) => [`${one.verdict} ${one.reason}`, one])).values()],
    stopped: all.find(({ stopped }) => stopped !== null)?.stopped ?? null,
    protocols: [...new Set(all.flatMap(({ protocols }) => protocols))].sort(),
    isCutOff: all.some((one) => one.isCutOff),
    warnings: [...input.warnings, ...busy, ...new Set(all.flatMap(({ warnings }) => warnings))],
  };
};

export const driveK6 =
  (setup: K6Setup): port.Driver =>
  async (drive, beside) => {
    const pids: number[] = [];
    const host = port.watchHost(pids);
    const onSpawn: port.Drive["onSpawn"] = (child) => {
      if (child.pid !== undefined) pids.push(child.pid);
      drive.onSpawn?.(child);
    };
    const { warnings, stopped: _, ...played } = await runK6(setup, { ...drive, onSpawn }, beside);
    const notes = warnings.map((warning) => `${drive.job.stage}: k6: ${warning}`);
    return { ...played, notes, host: host(), scheduledMs: profileDurationS(drive.job.profile) * 1000 };
  };

// Replaces k6's choice of an address. k6 takes one of a name's addresses at random, IPv4 before IPv6, and gives a
// call up if that one does not answer; browsers and Node go on to the next. Without this, a name with one dead
// address would look like an API that leaves calls unanswered.

/** `failed`: why it takes no connection, else `null`. */
type Tried = { address: string; family: number; failed: string | null };

/** Returns the first address that answers, if k6 might take another one, which does not; else `null`. */
export const liveAddress = (all: readonly Tried[]) => {
  const family = all.some((one) => one.family === 4) ? 4 : 6;
  const dead = all.filter((one) => one.family === family && one.failed !== null);
  const live = all.find(({ failed }) => failed === null);
  return dead.length === 0 || live === undefined ? null : { address: live.address, dead };
};

/** k6's option `hosts`, with a warning for each name in it. A proxy resolves names by itself. */
export const liveAddresses = async ({ base_url, key_management_url, tile_url, transport }: Target) => {
  const hosts: Record<string, string> = {};
  const warnings: string[] = [];
  const urls = typeof transport?.proxy === "string" ? [] : [base_url, key_management_url, tile_url];
  const places = urls.flatMap((url) => (url === undefined ? [] : [placeOf(url)]));
  for (const place of new Map(places.map((one) => [one.host, one])).values()) {
    const found = liveAddress(await lookAtAddresses(place));
    if (found === null) continue;
    hosts[place.host] = found.address;
    const dead = found.dead.map(({ address, failed }) => `${address} (${failed})`).join(", ");
    warnings.push(`${place.host} has addresses that take no connection: ${dead}; every call goes to ${found.address}`);
  }
  return { hosts, warnings };
};
