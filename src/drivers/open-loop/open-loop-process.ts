/**
 * The open-loop driver's own process, so that no other work of the runner delays a call: its side of the pipe, its
 * warm-up, and its part of the schedule. The process exits when its stdin ends.
 */
import { openApiClient } from "../../client/api-client.ts";
import { takeProtocols } from "../../client/transport.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import { callFold } from "../../history/call-fold.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import { type OpenCode, openBy } from "../../history/reason-codes.ts";
import { looksWrong } from "../../invariants/evidence/legal-answers.ts";
import { messageIn, readLines } from "../../supervision/lines.ts";
import { createRunClock, type RunClock } from "../../supervision/waiting.ts";
import type { Secrets } from "../../target/secrets.ts";
import { guardBudget } from "../../workload/budget.ts";
import { storyCalled } from "../../workload/catalogue.ts";
import { constant, profilePeakPerS } from "../../workload/load-profiles.ts";
import type { Story } from "../../workload/story.ts";
import { lagDoubt, type Problem, watchHost } from "../driver.ts";
import { startNullServer } from "./bare-server.ts";
import type { FromProcess, OpenLoopSpent, ToProcess } from "./driver.ts";
import { type OpenLoopEnd, type OpenLoopJob, startPressing } from "./play-schedule.ts";

const FLUSH_EVERY_MS = 50;
const FLUSH_AT_CHARS = 1 << 16;

const openProcessPipe = () => {
  let pending = "";
  const flush = (): void => {
    if (pending === "") return;
    process.stdout.write(pending);
    pending = "";
  };
  setInterval(flush, FLUSH_EVERY_MS).unref();
  /** Lines are gathered for up to 50 ms, unless `now`. */
  const tell = (message: FromProcess, now = false): void => {
    pending += `${JSON.stringify(message)}\n`;
    if (now || pending.length > FLUSH_AT_CHARS) flush();
  };

  const waiting = new Map<string, (message: ToProcess) => void>();
  /** Waits for the next message of a type; `n`: the number of the request that the message answers. */
  const once = <T extends ToProcess["type"]>(type: T, n = 0): Promise<Extract<ToProcess, { type: T }>> =>
    new Promise((resolve) => {
      waiting.set(`${type} ${n}`, resolve as (message: ToProcess) => void);
    });
  const hear = (line: string): void => {
    const message = messageIn(line) as ToProcess | null;
    if (message === null) return;
    const key = `${message.type} ${"n" in message ? message.n : 0}`;
    waiting.get(key)?.(message);
    waiting.delete(key);
  };
  // The end of stdin means that the runner is gone.
  readLines(process.stdin, hear, () => process.exit(0));

  let asked = 0;
  /** Values come from the runner, which alone reads the references of the target file. */
  const secrets: Secrets = {
    read: async (ref, what) => {
      const n = asked++;
      const answered = once("secret", n);
      tell({ type: "secret?", n, ref, what }, true);
      const { value, message } = await answered;
      if (value === undefined) throw new Error(message);
      return value;
    },
    forget: (ref) => tell({ type: "forget", ref }, true),
  };

  return {
    tell,
    once,
    secrets,
    end: (code: number): void => {
      flush();
      process.stdout.write("", () => process.exit(code));
    },
  };
};

/** Below this rate there is no warm-up: a slow first call ends before the next is due. */
const FROM_PER_S = 1_000;
const WARM_UP = { profile: constant(4_000, 2), arrivals: "uniform", maxOutstanding: 32, drainMs: 1_000 } as const;

const NO_SECRETS: Secrets = { read: async () => "of-nobody", forget: () => undefined };

/**
 * Plays the story to a local null server with made-up credentials and records nothing: freshly loaded code is many
 * times slower for its first thousands of calls, and at a high rate that backlog delays later calls. `onLine` does the
 * driver's usual work on each line and drops it.
 */
const warmUp = async (
  { segment, target: own, ...job }: OpenLoopJob,
  story: Story,
  clock: RunClock,
  onLine: (line: CallLine) => void,
): Promise<void> => {
  if (job.precise !== true && profilePeakPerS(job.profile) / (segment?.of ?? 1) < FROM_PER_S) return;
  using atEnd = new DisposableStack();
  const server = atEnd.adopt(await startNullServer(clock.nowUs), ({ close }) => close());
  const how = { stage: "warm-up", driver: "warm-up", idPrefix: "warm-up", onLine };
  const { transport: _transport, key_management_url: _keys, tile_url: _tiles, ...stated } = own;
  const target = { ...stated, base_url: `http://127.0.0.1:${server.port}/v1` };
  await using client = await openApiClient({ ...how, target, secrets: NO_SECRETS, view: job.view, clock });
  await startPressing({ ...job, target, ...WARM_UP }, story, client, clock, clock.nowUs(), how).finished;
};

const DRIVER = "open-loop";
const PROGRESS_EVERY_MS = 1000;

const LIMIT = "generator-was-the-limit";

const problemsOf = (end: OpenLoopEnd, firstUnmade: string, connections: number, stopped: boolean): Problem[] => {
  const { dropped, offered, queued, unmade, lagMs } = end;
  const problems: Problem[] = [];
  const say = (code: OpenCode, reason: string, about?: "time"): void => {
    problems.push({ ...openBy(code), reason, about });
  };
  if (dropped > 0) say(LIMIT, `the generator was the bottleneck: ${dropped} of ${offered} calls were not sent`);
  const late = lagDoubt(lagMs);
  if (late !== null) say(LIMIT, late, "time");
  if (queued > offered / 1000) {
    say(LIMIT, `${queued} of ${offered} calls may have waited for one of our ${connections} connections`, "time");
  }
  if (unmade > 0) say("program-failed", `${unmade} of ${offered} calls could not be made: ${maskSecrets(firstUnmade)}`);
  if (offered === 0 && !stopped) say("too-few-calls", "the schedule had no arrivals");
  return problems;
};

const main = async ({ tell, once, secrets }: ReturnType<typeof openProcessPipe>): Promise<void> => {
  let isStopped = false;
  const stopping = once("stop").then(() => {
    isStopped = true;
  });
  const { job, clockBaseUs } = await once("job");
  const story = storyCalled(job.story);
  const clock = createRunClock(job.epochUs, clockBaseUs);
  const { stage, idPrefix, target, view, timeouts, reference = false } = job;
  const budget = guardBudget(job.budget ?? {}, job.stated);
  const foldTo = (emit: (line: CallLine | FoldLine) => void) =>
    job.fold === true ? callFold({ emit, looksWrong: (call) => looksWrong(call, reference) }) : null;
  const cold = foldTo(() => undefined);
  await warmUp(job, story, clock, (line) => (cold === null ? void JSON.stringify(line) : cold.see(line)));
  takeProtocols(target.base_url);
  const fold = foldTo(tell);
  const onLine = fold === null ? tell : (line: CallLine): void => fold.see(line);
  const how = { stage, driver: DRIVER, idPrefix, onLine };
  const client = await openApiClient({ ...how, budget, target, secrets, view, clock, timeouts });
  await client.book.prepare(story.sessions(view));
  const going = once("go");
  tell({ type: "ready" }, true);
  const begun = await Promise.race([going, stopping]);
  if (begun === undefined) throw new Error("it was stopped before it was told to begin");
  const { startUs } = begun;

  const told = watchHost();
  const pressing = startPressing(job, story, client, clock, startUs, how);
  void stopping.then(pressing.stop);
  const spent = (): OpenLoopSpent => ({ spent: budget.spent(), stopped: budget.stopped });
  const progress = setInterval(() => tell({ type: "progress", ...pressing.now(), ...spent() }), PROGRESS_EVERY_MS);
  const { end, firstUnmade } = await pressing.finished;
  fold?.end();
  clearInterval(progress);
  const problems = problemsOf(end, firstUnmade, client.connections, isStopped);
  const ended = { end: { ...end, protocols: takeProtocols(target.base_url) }, problems };
  tell({ type: "end", ...ended, ...spent(), host: told(pressing.spunUs()) }, true);
  await client.close();
};

const pipe = openProcessPipe();
main(pipe).then(
  () => pipe.end(0),
  (error: unknown) => {
    pipe.tell({ type: "failed", message: maskSecrets(error instanceof Error ? error.message : String(error)) }, true);
    pipe.end(1);
  },
);
