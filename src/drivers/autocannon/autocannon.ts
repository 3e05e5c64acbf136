/**
 * The autocannon driver: a closed loop in the runner's own process, by autocannon's documented options and events. It
 * measures the highest throughput, not latency under load, because a stall also stops the load.
 */
import type autocannon from "autocannon";
import { lineOf, openApiClient } from "../../client/api-client.ts";
import type { Received } from "../../client/send-request.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import { isStreamed } from "../../contract/routes.ts";
import { type OpenCode, openBy } from "../../history/reason-codes.ts";
import { createRunClock } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import type { Taken } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { keysFor, viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES, storyCalled } from "../../workload/catalogue.ts";
import { profileDurationS, profilePeakPerS } from "../../workload/load-profiles.ts";
import { callId, type Step, urlOf } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import { type Driver, type Problem, STOPPED_DRAIN_MS, watchHost } from "../driver.ts";

const DRIVER = "autocannon";
const CONNECTIONS = 10;
const TIMEOUT_S = 30;
const SAMPLE_MS = 100;
/** More failed connections in a row than this mean that nothing listens. */
const REFUSED_MAX = 200;
/** The share of the permitted rate asked for: autocannon counts whole seconds, between which two bursts may meet. */
const RATE_SHARE = 0.5;

/** Settings of a target file that autocannon would silently ignore; `null` if there are none. */
const cannotReach = ({ base_url, transport }: Pick<Target, "base_url" | "transport">): string | null => {
  const unable = [
    ...(transport?.proxy ? ["a proxy"] : []),
    ...(transport?.protocol === "h2" ? ["HTTP/2"] : []),
    // autocannon does not check certificates, so an impostor could take the keys.
    ...(base_url.startsWith("https:") ? ["https"] : []),
  ];
  return unable.length === 0 ? null : unable.join(", ");
};

/** How many calls of a story are checked; every story repeats sooner. */
const LOOKED_AT = 300;
/** The lowest permitted rate: autocannon is asked for half of it, in whole calls per second. */
const LEAST_PER_S = 2;

const beyond = ({ route, retry, abort, slowReadMs }: Step): string | null => {
  if (isStreamed({ route })) return `reads event streams (${route})`;
  if (retry !== undefined) return "tries again after a refusal";
  return abort !== undefined || slowReadMs !== undefined ? "leaves or reads slowly on purpose" : null;
};

/** What autocannon cannot do of a story; `null` if all calls are plain requests. */
export const notPlain = (story: Story, seed: number, view: TargetView): string | null => {
  for (let i = 0; i < LOOKED_AT; i++) {
    const steps = story.plan(seed, i, view);
    if (steps.length !== 1) return "makes calls that build on each other";
    const found = beyond(steps[0] as Step);
    if (found !== null) return found;
  }
  return null;
};

/** Why autocannon cannot play the stage on the target; `null` if it can, or another driver plays the stage. */
export const closedLoopRefusal = (
  { driver, story: name, ratePerS = Number.POSITIVE_INFINITY }: { driver: string; story: string; ratePerS?: number },
  target: Target,
): string | null => {
  const story = STORIES.get(name);
  if (driver !== "autocannon" || story === undefined) return null;
  const others = "use --driver open-loop or --driver k6";
  const more = notPlain(story, 0, viewOf(target));
  if (more !== null) return `${name} ${more}, and autocannon makes plain requests only; ${others}`;
  const unable = cannotReach(target);
  if (unable !== null) return `autocannon is not set up for ${unable} of the target file; ${others}`;
  const mostPerS = Math.min(ratePerS, target.permits?.load_max_rps ?? Number.POSITIVE_INFINITY);
  return mostPerS < LEAST_PER_S
    ? `autocannon sends at least ${LEAST_PER_S} calls/s, and ${mostPerS} are permitted; ${others}`
    : null;
};

type Call = { id: string; step: Step; taken: Taken; request: autocannon.Request; sentUs: number };

/** The job's profile gives the duration, and its peak rate bounds the connections. */
export const driveAutocannon =
  ({ maxPerS }: { maxPerS?: number } = {}): Driver =>
  async (drive, beside) => {
    const { job, secrets, budget, signal, onLine } = drive;
    const { target, view, seed, stage, idPrefix, profile } = job;
    const story = storyCalled(job.story);
    const unable = cannotReach(target);
    if (unable !== null) throw new Error(`autocannon is not set up for ${unable} of the target file; use --driver k6`);
    const { default: run } = await import("autocannon");
    const problems: Problem[] = [];
    const doubt = (code: OpenCode, reason: string): void => {
      if (!problems.some((one) => one.reason === reason)) problems.push({ ...openBy(code), reason });
    };
    const clock = createRunClock(job.epochUs);
    await using client = await openApiClient({ ...job, secrets, clock, budget, onLine, driver: DRIVER });
    const host = watchHost();
    const connections: { isIdle(): boolean; lose(): void; close(): void }[] = [];
    const { origin } = new URL(target.base_url);
    const timeoutUs = TIMEOUT_S * 1e6;
    let isOver = false;
    let made = 0;
    let answered = 0;
    let refusedInRow = 0;

    const requestOf = (step: Step, id: string): autocannon.Request => {
      const url = new URL(urlOf(target, step));
      if (url.origin !== origin) throw new Error(`${step.route} is not on ${origin}, and autocannon calls one server`);
      const { method, body } = step;
      const request = { method, path: url.pathname + url.search, headers: client.headersOf(step, id) };
      return body === undefined ? request : { ...request, body };
    };

    const next = (): Call | null => {
      const [step] = isOver ? [] : story.plan(seed, made, view);
      if (step === undefined) return null;
      try {
        const id = callId(idPrefix, made, 0, 0);
        const request = requestOf(step, id);
        const charge = step.meter === "design_analyses" ? "analyses" : step.meter;
        const taken = budget.take(clock.nowUs(), { charge });
        if (taken === null) return null;
        made += 1;
        return { id, step, taken, request, sentUs: clock.nowUs() };
      } catch (error) {
        const why = maskSecrets(error instanceof Error ? error.message : String(error));
        doubt("program-failed", `calls could not be made: ${why}`);
        return null;
      }
    };

    const finish = (): void => {
      isOver = true;
      for (const one of connections) if (one.isIdle()) one.close();
    };

    const setupClient = (given: autocannon.Client): void => {
      // autocannon's typings omit these members, which every client has.
      const socket = given as autocannon.Client & NodeJS.EventEmitter & { destroy(): void };
      let call: Call | null = null;
      let headUs: number | null = null;
      /** The target announced that it closes the connection, so it never sees the call that is written to it now. */
      let isClosing = false;
      let isNew = true;
      const end = (how: Partial<Received>): void => {
        if (call === null) return;
        const { id, step, taken, sentUs } = call;
        const doneUs = clock.nowUs();
        const times = { startedUs: sentUs, connectUs: 0, sentUs, firstUs: headUs, doneUs };
        const nothing = { status: null, headers: {}, text: "", seen: null, aborted: false };
        const received: Received = { sent: true, ...times, ...nothing, ended: "eof", ...how };
        call = null;
        headUs = null;
        if (isClosing) return void taken.settle(doneUs, { outcome: "indeterminate", sent: false, sentUs, doneUs });
        const line = lineOf(step, received, { id, stage, driver: DRIVER, intendedUs: sentUs }, clock.errorUs);
        taken.settle(doneUs, { outcome: line.outcome, sent: received.sent, sentUs, doneUs });
        onLine(line);
      };
      /** Ends a call whose connection broke or that took too long; autocannon reports neither. */
      const lose = (): void => {
        if (call === null) return;
        const isLate = clock.nowUs() - call.sentUs >= timeoutUs;
        end({ error: isLate ? "timeout" : "connection_closed", ended: isLate ? "timeout" : "reset" });
        isClosing = false;
      };
      const answer: autocannon.Request["onResponse"] = (status, text, _context, sent = {}) => {
        const named = Object.entries(sent).map(([name, value]) => [name.toLowerCase(), value as string]);
        const headers: Received["headers"] = Object.fromEntries(named);
        answered += 1;
        refusedInRow = 0;
        isClosing = false;
        end({ status, text, headers, ended: status >= 300 ? "refused" : "eof" });
        isClosing = headers.connection === "close";
      };
      connections.push({ isIdle: () => call === null, lose, close: () => socket.destroy() });
      socket.on("headers", () => {
        headUs = clock.nowUs();
      });
      // autocannon emits `request` just before it writes one.
      socket.on("request", () => {
        lose();
        call = next();
        if (call !== null) socket.setRequests([{ ...call.request, onResponse: answer }]);
        // Deferred, because a new client is not fully constructed and has no connection yet.
        else if (isNew) queueMicrotask(() => socket.destroy());
        else socket.destroy();
        isNew = false;
      });
      socket.on("connError", (error: NodeJS.ErrnoException) => {
        const sent = error.syscall === "read" || error.syscall === "write";
        end({ sent, error: error.code ?? error.message, ended: "reset" });
        refusedInRow += 1;
        if (refusedInRow <= REFUSED_MAX || isOver) return;
        doubt("not-answered", `${REFUSED_MAX} connections in a row could not be made: nobody answers at ${origin}`);
        finish();
      });
    };

    for (const { ref } of keysFor(story, seed, view, target)) await client.book.fetch(ref);
    await client.book.prepare(story.sessions(view));
    const durationS = profileDurationS(profile);
    const mostPerS = Math.min(maxPerS ?? Number.POSITIVE_INFINITY, budget.stated.maxPerS ?? Number.POSITIVE_INFINITY);
    const atOnce = Math.min(target.transport?.connections ?? CONNECTIONS, profilePeakPerS(profile));
    const running = run({
      url: origin,
      // More connections than calls per second would only wait for each other.
      connections: Math.max(1, Math.min(Math.ceil(atOnce), budget.left().requests ?? atOnce)),
      timeout: TIMEOUT_S,
      sampleInt: SAMPLE_MS,
      // At its end autocannon cuts off calls in flight, so this driver ends the load earlier by itself.
      duration: Math.ceil(durationS + 4 * TIMEOUT_S),
      ...(Number.isFinite(mostPerS) ? { overallRate: Math.max(1, Math.floor(RATE_SHARE * mostPerS)) } : {}),
      setupClient,
    });
    const over = AbortSignal.any([signal, AbortSignal.timeout(Math.round(durationS * 1000))]);
    over.addEventListener("abort", finish);
    if (over.aborted) finish();
    let cutting: NodeJS.Timeout | undefined;
    const watching = setInterval(() => {
      if (budget.stopped === null && !signal.aborted) return;
      finish();
      cutting ??= setTimeout(() => (running as unknown as autocannon.Instance).stop(), STOPPED_DRAIN_MS);
    }, SAMPLE_MS);
    try {
      if (beside !== undefined) await Promise.race([beside(), running]);
    } finally {
      if (beside !== undefined) finish();
      await running;
      clearTimeout(cutting);
      clearInterval(watching);
      for (const { lose } of connections) lose();
    }
    const { stopped } = budget;
    if (stopped !== null)
      doubt(stopped.by === "spent" ? "budget-spent" : "stopped", `stopped early: ${stopped.reason}`);
    if (answered === 0) doubt("not-answered", "autocannon got no answer at all");
    const halved = `autocannon counts whole seconds and may send twice as many in a second between them, so it was asked for half of the ${mostPerS} calls/s that are permitted`;
    return {
      problems,
      notes: Number.isFinite(mostPerS) ? [`${stage}: ${halved}`] : [],
      host: host(),
      scheduledMs: 0,
      protocols: answered > 0 ? ["h1"] : [],
    };
  };
