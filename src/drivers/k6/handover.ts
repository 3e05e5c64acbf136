/** Gathers what a scenario needs: credentials, sessions minted beforehand, certificates, a proxy, its schedule. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openApiClient } from "../../client/api-client.ts";
import { createRunClock, wallUs } from "../../client/clock.ts";
import { tlsFiles } from "../../client/transport.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import { fileLimitsOf } from "../../supervision/processes.ts";
import { countArrivals } from "../../workload/arrivals.ts";
import { keysFor, originsOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { HandOver } from "../../workload/handover.ts";
import * as executor from "../../workload/k6-executor.ts";
import { credentialName } from "../../workload/request.ts";
import type { CredentialRef } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { callsEndMs, TIMEOUTS } from "../../workload/timeouts.ts";
import type { Drive, DriveJob } from "../driver.ts";
import { k6Outputs } from "./k6-process.ts";

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

/** Returns totals over all segments; each segment gets at least one VU and one call. */
export const vusHere = (
  { profile, view, story, seed, vus }: Pick<DriveJob, "profile" | "view" | "seed"> & { story: Story; vus?: number },
  segments: number,
  // The hard limit counts, because Go raises its soft limit of open files to it.
  { freeBytes, files } = {
    freeBytes: process.availableMemory(),
    files: fileLimitsOf("self")?.hard ?? Number.POSITIVE_INFINITY,
  },
): { vus: number; callsAtOnce: number; warnings: string[] } => {
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
export const planRun = (setup: K6Setup, drive: Drive) => {
  const { job } = drive;
  const story = STORIES.get(job.story);
  if (story === undefined) throw new Error(`there is no story called ${job.story}`);
  const arrivals = countArrivals(job.profile, job.arrivals, job.seed);
  if (arrivals === 0) return null;
  const segments = Math.min(drive.segments ?? 1, arrivals);
  const places = vusHere({ ...job, story, vus: setup.vus }, segments);
  return { ...setup, ...drive, ...places, story, timeouts: { ...TIMEOUTS, ...job.timeouts }, arrivals, segments };
};

export type K6Run = NonNullable<ReturnType<typeof planRun>> & { folder: string };

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
  const credentials: HandOver["credentials"] = {};
  for (const { ref } of keys) {
    const value = await client.book.fetch(ref);
    if (value !== null) credentials[credentialName(ref)] = value;
  }
  const sessions: HandOver["sessions"] = {};
  for (const wanted of story.sessions(view)) {
    const ref: CredentialRef = { as: "session", ...wanted };
    await client.book.fetch(ref);
    const held = client.book.sessionOf(ref);
    if (held !== undefined) sessions[credentialName(ref)] = held;
  }
  return { credentials, origins: originsOf(keys), sessions, headers: client.sharedHeaders };
};

/** The input of every process, without its own paths and budget share, and its environment. */
export const inputFor = async (run: K6Run) => {
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
  const credentials = await credentialsFor(run);
  // A single process begins when it is ready; several begin at the same moment.
  const startUs = segments === 1 ? undefined : wallUs() + executor.startTogetherMs(vus) * 1000;
  const handOver: HandOver = {
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
  return { handOver, environment };
};

export type K6Input = Awaited<ReturnType<typeof inputFor>>;
