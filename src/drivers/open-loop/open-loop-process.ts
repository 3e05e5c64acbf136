/** The open-loop driver's own process, so that nothing else in the runner makes a call late. It ends with its stdin. */

import { openApiClient } from "../../client/api-client.ts";
import { createRunClock } from "../../client/clock.ts";
import { takeProtocols } from "../../client/transport.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import { callFold } from "../../history/call-fold.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import { looksWrong } from "../../invariants/evidence/legal-answers.ts";
import { guardBudget } from "../../workload/budget.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Problem } from "../driver.ts";
import { lagDoubt, watchHost } from "../host-notes.ts";
import { startPressing } from "./play-schedule.ts";
import { type OpenLoopEnd, type OpenLoopSpent, openProcessPipe, type ProcessPipe } from "./process-pipe.ts";
import { warmUp } from "./warm-up.ts";

const DRIVER = "open-loop";
const PROGRESS_EVERY_MS = 1000;
/** From `go` to the first arrival, where the runner does not say. */
const LEAD_US = 100_000;

const problemsOf = (end: OpenLoopEnd, firstUnmade: string, connections: number, stopped: boolean): Problem[] => {
  const { dropped, offered, queued, unmade, lagMs } = end;
  const problems: Problem[] = [];
  const say = (reason: string, about?: "time"): void => {
    problems.push({ verdict: "inconclusive", reason, about });
  };
  if (dropped > 0) say(`the generator was the bottleneck: ${dropped} of ${offered} calls were not sent`);
  const late = lagDoubt(lagMs);
  if (late !== null) say(late, "time");
  if (queued > offered / 1000) {
    say(`${queued} of ${offered} calls may have waited for one of our ${connections} connections`, "time");
  }
  if (unmade > 0) say(`${unmade} of ${offered} calls could not be made: ${maskSecrets(firstUnmade)}`);
  if (offered === 0 && !stopped) say("the schedule had no arrivals");
  return problems;
};

const main = async ({ tell, once, secrets, measureClock }: ProcessPipe): Promise<void> => {
  let isStopped = false;
  const stopping = once("stop").then(() => {
    isStopped = true;
  });
  const { job } = await once("job");
  const story = STORIES.get(job.story);
  if (story === undefined) throw new Error(`there is no story called ${job.story}`);
  const { offsetUs, errorUs } = await measureClock();
  const clock = createRunClock(job.epochUs, offsetUs, errorUs);
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
  tell({ type: "ready", clockErrorUs: errorUs }, true);
  const begun = await Promise.race([going, stopping]);
  if (begun === undefined) throw new Error("it was stopped before it was told to begin");
  const { startUs = clock.nowUs() + LEAD_US } = begun;

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
