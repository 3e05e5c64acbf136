/**
 * Closed loop, as fast as the budget lets it, by autocannon: each connection sends its next call when the last one is
 * answered. Good for "how fast is it at most"; useless for latency under load, because a stall stops the load that would
 * have met it (field-notes/measured.md section 6). So it gives totals, and no history lines. It runs in the runner's own
 * process: nothing is handed over, and the budget is asked before each call leaves.
 */

import { openApiClient } from "../../client/api-client.ts";
import { countedOutcome } from "../../client/call-line.ts";
import { createRunClock } from "../../client/clock.ts";
import { maskSecrets } from "../../contract/credentials.ts";
import { codingOf, readAnswer } from "../../contract/envelopes.ts";
import { Histogram } from "../../history/statistics/histogram.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { type BudgetGuard, guardBudget } from "../../workload/budget.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { callId, headersOf, mayHaveAnyBody, nobodysCredential, urlOf } from "../../workload/request.ts";
import type { Step } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import type { Problem } from "../open-loop/job.ts";
import { type GatedClient, gateClient, type NextCall } from "./gated-client.ts";

export type AutocannonOptions = {
  target: Target;
  view: TargetView;
  secrets: Secrets;
  /** A plain one (plain-story.ts). */
  story: Story;
  seed: number;
  stage: string;
  idPrefix: string;
  connections: number;
  durationS: number;
  epochUs: number;
  /** Asked before each call leaves. */
  budget: BudgetGuard;
  /** Calls per second at the most, beside what the budget permits. */
  maxPerS?: number;
  /** No further calls; what is under way ends. */
  signal: AbortSignal;
};

type AutocannonResult = {
  /** By outcome; calls without an answer stand under `indeterminate`. Minting sessions is among them. */
  byOutcome: Record<string, number>;
  /** How long calls were begun, in seconds. */
  sendingS: number;
  /** From sending, of answered and refused calls; not from an intended moment, since there is none. Microseconds. */
  latencyUs: Histogram;
  problems: Problem[];
};

const TIMEOUT_S = 30;
/** A run that its target file stops has ended within two seconds. */
const STOPPED_DRAIN_MS = 1_000;
/** autocannon ends at a sample's end. */
const SAMPLE_MS = 100;
/** So many connections that could not be made, one after the other: nobody is there. */
const REFUSED_MAX = 200;

/** What autocannon would pass over in silence. */
export const cannotReach = ({ base_url, transport }: Pick<Target, "base_url" | "transport">): string | null => {
  const unable = [
    ...(transport?.proxy ? ["a proxy"] : []),
    ...(transport?.protocol === "h2" ? ["HTTP/2"] : []),
    // It does not check certificates, so anybody could take the keys.
    ...(base_url.startsWith("https:") ? ["https"] : []),
  ];
  return unable.length === 0 ? null : unable.join(", ");
};

/** A second, tighter rate in front of the budget. */
const atMost = (budget: BudgetGuard, maxPerS: number | undefined): BudgetGuard => {
  if (maxPerS === undefined) return budget;
  const pace = guardBudget({ maxPerS });
  return {
    ...budget,
    get stopped() {
      return budget.stopped;
    },
    take: (nowUs, charging) => {
      const taken = budget.take(nowUs, charging);
      if (taken === null) return null;
      return { ...taken, waitUs: Math.max(taken.waitUs, pace.take(nowUs)?.waitUs ?? 0) };
    },
  };
};

export const runAutocannon = async (options: AutocannonOptions): Promise<AutocannonResult> => {
  const { target, view, secrets, story, seed, stage, idPrefix, budget, signal } = options;
  const unable = cannotReach(target);
  if (unable !== null) throw new Error(`autocannon is not set up for ${unable} of the target file; use --driver k6`);
  // Loaded on demand: every command that plays stages knows of this driver, and few use it.
  const { default: autocannon } = await import("autocannon");
  const byOutcome: Record<string, number> = {};
  const latencyUs = new Histogram();
  const problems: Problem[] = [];
  const doubt = (reason: string): void => {
    if (!problems.some((one) => one.reason === reason)) problems.push({ verdict: "inconclusive", reason });
  };
  const count = (outcome: string): void => {
    byOutcome[outcome] = (byOutcome[outcome] ?? 0) + 1;
  };
  const clock = createRunClock(options.epochUs);
  const minting = { driver: "autocannon", onLine: ({ outcome }: { outcome: string }) => count(outcome) };
  const client = await openApiClient({ target, secrets, view, clock, stage, idPrefix, budget, ...minting });
  let isOver = false;
  let refusedInRow = 0;
  const clients: GatedClient[] = [];
  const finish = (): void => {
    isOver = true;
    for (const one of clients) one.endIfIdle();
  };
  try {
    await client.book.prepare([], story.sessions(view));
    const shared: Record<string, string> = {};
    for (const [name, ref] of Object.entries(target.transport?.headers ?? {})) {
      shared[name.toLowerCase()] = await secrets.read(ref, `transport.headers.${name}`);
    }
    const { origin } = new URL(target.base_url);
    let number = 0;

    const requestOf = async (step: Step, i: number): Promise<NextCall["request"]> => {
      const nobodys = nobodysCredential(step);
      const credential =
        nobodys !== undefined
          ? nobodys
          : (client.book.peek(step.credential) ?? (await client.book.fetch(step.credential)));
      const listedOrigin = "of" in step.credential ? client.book.originOf(step.credential.of) : undefined;
      const headers = headersOf(step, { id: callId(idPrefix, i, 0, 0), credential, listedOrigin, shared });
      if (headers === null) throw new Error(`no origin is known for the caller of ${step.route}`);
      const url = new URL(urlOf(target, step));
      if (url.origin !== origin) throw new Error(`${step.route} is not on ${origin}, and autocannon calls one server`);
      const { method, body } = step;
      return { method, path: url.pathname + url.search, headers, ...(body === undefined ? {} : { body }) };
    };

    const next = async (): Promise<NextCall | null> => {
      const i = number++;
      const [step] = story.plan(seed, i, view);
      if (step === undefined) return null;
      const charge = step.meter === "design_analyses" ? "analyses" : step.meter;
      try {
        const request = await requestOf(step, i);
        const anyBody = mayHaveAnyBody(step);
        const outcomeOf: NextCall["outcomeOf"] = (status, body, contentEncoding) =>
          countedOutcome(readAnswer(status, body, { coding: codingOf(contentEncoding), anyBody }).outcome);
        return { request, charging: charge === undefined ? {} : { charge }, outcomeOf };
      } catch (error) {
        doubt(`calls could not be made: ${maskSecrets(error instanceof Error ? error.message : String(error))}`);
        return null;
      }
    };

    const gate = {
      budget: atMost(budget, options.maxPerS),
      nowUs: clock.nowUs,
      isOver: () => isOver,
      next,
      ended: ({ outcome, sentUs, doneUs }: { outcome: string; sentUs: number; doneUs: number }) => {
        count(outcome);
        if (outcome === "indeterminate") return;
        refusedInRow = 0;
        latencyUs.record(doneUs - sentUs);
      },
    };
    const beganMs = performance.now();
    const running = autocannon({
      url: origin,
      connections: options.connections,
      timeout: TIMEOUT_S,
      sampleInt: SAMPLE_MS,
      // It would cut off the calls under way; the end is ours.
      duration: Math.ceil(options.durationS + 4 * TIMEOUT_S),
      setupClient: (one) => {
        (one as NodeJS.EventEmitter).on("connError", () => {
          refusedInRow += 1;
          if (refusedInRow <= REFUSED_MAX || isOver) return;
          doubt(`${REFUSED_MAX} connections in a row could not be made: nobody answers at ${origin}`);
          finish();
        });
        clients.push(gateClient(one, gate));
      },
    });
    const timer = setTimeout(finish, options.durationS * 1000);
    signal.addEventListener("abort", finish, { once: true });
    if (signal.aborted) finish();
    let cutting: NodeJS.Timeout | undefined;
    const watching = setInterval(() => {
      // Clients that ask a budget which lets nothing leave end by themselves.
      if (budget.stopped === null && !signal.aborted) return;
      cutting ??= setTimeout(() => (running as unknown as { stop(): void }).stop(), STOPPED_DRAIN_MS);
    }, SAMPLE_MS);
    try {
      await running;
    } finally {
      clearTimeout(timer);
      clearTimeout(cutting);
      clearInterval(watching);
      signal.removeEventListener("abort", finish);
      for (const one of clients) one.giveUp();
    }
    const sendingS = Math.min(options.durationS, (performance.now() - beganMs) / 1000);
    if (budget.stopped !== null) doubt(`stopped early: ${budget.stopped}`);
    if (latencyUs.n === 0) doubt("autocannon got no answer at all");
    return { byOutcome, sendingS, latencyUs, problems };
  } finally {
    await client.close();
  }
};
