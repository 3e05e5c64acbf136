/**
 * Closed loop, flat out, by autocannon: each connection sends its next call when the last one is answered. Good for "how
 * fast is it at most" side by side; useless for latency under load, because a stall stops the load that would have met it
 * (field-notes/measured.md section 6). So it gives totals, and no history lines.
 */
import autocannon from "autocannon";
import { openApiClient } from "../client/api-client.ts";
import { createRunClock } from "../client/clock.ts";
import { readAnswer } from "../contract/envelopes.ts";
import { ERROR_IN_BODY } from "../contract/refusals.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import type { TargetView } from "../workload/callers/target-view.ts";
import { headersOf, nobodysCredential, urlOf } from "../workload/request.ts";
import type { Step } from "../workload/step.ts";
import type { Story } from "../workload/story.ts";
import type { Problem } from "./open-loop/job.ts";

export type AutocannonOptions = {
  target: Target;
  view: TargetView;
  secrets: Secrets;
  story: Story;
  seed: number;
  stage: string;
  idPrefix: string;
  connections: number;
  durationS: number;
  epochUs: number;
};

type AutocannonResult = {
  /** Answers by outcome; calls without an answer stand under `indeterminate`. */
  byOutcome: Record<string, number>;
  /** Answers per second, refusals among them. */
  ratePerS: number;
  /** From sending; not from an intended moment, since there is none. */
  latencyMs: { p50: number; p90: number; p99: number; max: number };
  problems: Problem[];
};

/** So many different calls go round. */
const CALLS = 64;
const TIMEOUT_S = 30;

const outcomeOf = (status: number, body: string): string => {
  // A stream's end is not seen here, but that it said "error" is.
  if (status === 200 && /^event: /m.test(body)) return /^event: error$/m.test(body) ? ERROR_IN_BODY : "200";
  return readAnswer(status, body).outcome;
};

export const runAutocannon = async (options: AutocannonOptions): Promise<AutocannonResult> => {
  const { target, view, secrets, story, seed, stage, idPrefix } = options;
  const { transport } = target;
  const unable = [transport?.proxy ? "a proxy" : "", transport?.protocol === "h2" ? "HTTP/2" : ""].filter(Boolean);
  if (unable.length > 0 || transport?.ca || transport?.cert) {
    const what = [...unable, ...(transport?.ca || transport?.cert ? ["certificates"] : [])].join(", ");
    throw new Error(`autocannon is not set up for ${what} of the target file; use --driver open-loop`);
  }
  const byOutcome: Record<string, number> = {};
  const count = (outcome: string, n = 1): void => {
    byOutcome[outcome] = (byOutcome[outcome] ?? 0) + n;
  };
  const clock = createRunClock(options.epochUs);
  const onLine = ({ outcome }: { outcome: string }): void => count(outcome);
  const client = await openApiClient({ target, secrets, view, clock, stage, driver: "autocannon", idPrefix, onLine });
  try {
    const shared: Record<string, string> = {};
    for (const [name, ref] of Object.entries(transport?.headers ?? {})) {
      shared[name.toLowerCase()] = await secrets.read(ref, `transport.headers.${name}`);
    }
    const requestOf = async (step: Step): Promise<autocannon.Request> => {
      const nobodys = nobodysCredential(step);
      const credential = nobodys === undefined ? await client.book.fetch(step.credential) : nobodys;
      const listedOrigin = "of" in step.credential ? client.book.originOf(step.credential.of) : undefined;
      // autocannon puts a number of its own in place of [<id>].
      const headers = headersOf(step, { id: `${idPrefix}-[<id>]`, credential, listedOrigin, shared });
      if (headers === null) throw new Error(`no origin is known for the caller of ${step.route}`);
      const { pathname, search } = new URL(urlOf(target, step));
      return {
        method: step.method,
        path: pathname + search,
        headers,
        ...(step.body === undefined ? {} : { body: step.body }),
        onResponse: (status, body) => count(outcomeOf(status, body)),
      };
    };
    const requests: autocannon.Request[] = [];
    for (let i = 0; requests.length < CALLS; i++) {
      for (const step of story.plan(seed, i, view)) requests.push(await requestOf(step));
    }
    const { origin } = new URL(target.base_url);
    const { connections, durationS: duration } = options;
    const ran = await autocannon({
      url: origin,
      connections,
      duration,
      requests,
      idReplacement: true,
      timeout: TIMEOUT_S,
    });
    if (ran.errors > 0) count("indeterminate", ran.errors);
    const answered = ran["1xx"] + ran["2xx"] + ran["3xx"] + ran["4xx"] + ran["5xx"];
    const { p50, p90, p99, max } = ran.latency;
    return {
      byOutcome,
      ratePerS: answered / ran.duration,
      latencyMs: { p50, p90, p99, max },
      problems: answered === 0 ? [{ verdict: "inconclusive", reason: "autocannon got no answer at all" }] : [],
    };
  } finally {
    await client.close();
  }
};
