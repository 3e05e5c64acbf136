/**
 * Makes the calls of one iteration and prints a line for each. Streams and other answers go through the same extension,
 * because only it times them in microseconds; what an answer means is decided by the runner, not here.
 */
import { sleep } from "k6";
import exec from "k6/execution";
import sse, { type SseParams, type SseResponse } from "k6/x/sse";
import { maskSecrets } from "../../src/contract/credentials.ts";
import { readAnswer } from "../../src/contract/envelopes.ts";
import { routeOf } from "../../src/contract/routes.ts";
import { ERROR_EVENT, VOCABULARIES } from "../../src/contract/streams.ts";
import type { Printed } from "../../src/workload/handover.ts";
import { callId, credentialName, headersOf, nobodysCredential, urlOf } from "../../src/workload/request.ts";
import { nextAttemptMs } from "../../src/workload/retry.ts";
import type { Step } from "../../src/workload/step.ts";
import type { Story } from "../../src/workload/story.ts";
import { handed } from "./handed.ts";
import { print } from "./print.ts";

const BODY_MAX_CHARS = 2048;

const credentialOf = (step: Step): string | null => {
  const nobodys = nobodysCredential(step);
  if (nobodys !== undefined) return nobodys;
  const name = credentialName(step.credential);
  const found = handed.credentials[name];
  if (found === undefined) throw new Error(`no credential was handed over for ${name}`);
  return found;
};

const paramsOf = (step: Step, id: string): SseParams => {
  const listedOrigin = "of" in step.credential ? handed.origins[step.credential.of] : undefined;
  const credential = credentialOf(step);
  const headers = headersOf(step, { id, credential, listedOrigin, shared: handed.headers });
  if (headers === null) throw new Error(`no origin was handed over for the caller of ${step.route}`);
  const { callMs, firstEventMs, idleMs } = handed.timeouts;
  const params: SseParams = {
    method: step.method,
    headers,
    timeout: callMs,
    idleTimeout: idleMs,
    tags: { name: step.route },
  };
  const stream = step.route === "-" ? undefined : routeOf(step.route).stream;
  if (stream !== undefined) {
    params.firstEventTimeout = firstEventMs;
    params.terminal = { done: VOCABULARIES[stream].done, error: ERROR_EVENT };
  }
  if (step.body !== undefined) params.body = step.body;
  return params;
};

/** What an outcome is named by. A body that may hold a token is cut down to the fields that a judge reads. */
const tellable = (step: Step, status: number, body: string): string => {
  if (step.route === "sdk.sessions" && status >= 200 && status < 300) {
    const { expires_in, product } = (JSON.parse(body) ?? {}) as Record<string, unknown>;
    return JSON.stringify({ expires_in, product });
  }
  if (status >= 200 && status < 300) return body.includes('"error"') ? maskSecrets(body.slice(0, BODY_MAX_CHARS)) : "";
  return maskSecrets(body.slice(0, BODY_MAX_CHARS));
};

const attemptOf = (step: Step, i: number, at: number, attempt: number): Printed => {
  const names: string[] = [];
  let opened = false;
  let aborted = false;
  let events = 0;
  const { abort, slowReadMs } = step;
  if (abort !== undefined && !("afterEvents" in abort))
    throw new Error("k6 can leave a stream after events, not after a time");
  const id = callId(handed.idPrefix, i, at, attempt);
  const answer: SseResponse = sse.open(urlOf(handed.places, step), paramsOf(step, id), (client) => {
    client.on("open", () => {
      opened = true;
    });
    client.on("event", ({ name }) => {
      events += 1;
      const known = name === "" ? "message" : name;
      if (!names.includes(known)) names.push(known);
      if (abort !== undefined && "afterEvents" in abort && events >= abort.afterEvents) {
        aborted = true;
        client.close();
      } else if (slowReadMs !== undefined) {
        // Reading waits for the handler.
        sleep(slowReadMs / 1000);
      }
    });
  });
  const sentUs = answer.sent_us ?? Date.now() * 1000;
  const printed: Printed = {
    type: "call",
    i,
    step: at,
    attempt,
    beganMs: exec.scenario.startTime,
    sentUs,
    firstUs: answer.first_us,
    doneUs: answer.done_us ?? sentUs,
    status: answer.status,
    ended: answer.ended,
    opened,
    events: answer.events,
    late: answer.late,
    names,
    error: maskSecrets(answer.error),
    body: tellable(step, answer.status, answer.body),
    aborted: aborted && answer.ended === "closed_by_client",
  };
  const retryAfter = answer.headers["Retry-After"];
  if (retryAfter !== undefined) printed.retryAfter = retryAfter;
  return printed;
};

const outcomeOf = (printed: Printed): string => {
  if (printed.status === 0) return "indeterminate";
  return printed.opened ? String(printed.status) : readAnswer(printed.status, printed.body).outcome;
};

const perform = (story: Story, i: number): void => {
  for (const [at, step] of story.plan(handed.seed, i, handed.view).entries()) {
    for (let attempt = 0; ; attempt++) {
      const printed = attemptOf(step, i, at, attempt);
      print(printed);
      const outcome = outcomeOf(printed);
      const refused = { outcome, retryAfter: printed.retryAfter, attempt, nowMs: Date.now() };
      const waitMs = nextAttemptMs(step, handed.seed, i, refused);
      if (waitMs === null) {
        // A later step builds on this one.
        if (!outcome.startsWith("2")) return;
        break;
      }
      sleep(waitMs / 1000);
    }
  }
};

/**
 * The whole of an iteration. An exception in k6 neither fails the run nor changes its exit code, so it is printed, and the
 * runner makes the stage fail for it.
 */
export const runStory = (story: Story): void => {
  const i = handed.firstCall + exec.scenario.iterationInTest;
  try {
    perform(story, i);
  } catch (error) {
    print({ type: "fault", i, message: maskSecrets(String(error)) });
  }
};
