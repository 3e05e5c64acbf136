/**
 * One whole stream of each kind, read once and looked at by every rule about streams: what their rules have in common.
 */
import type { RouteName, Stream } from "../../../contract/routes.ts";
import { ERROR_EVENT } from "../../../contract/streams.ts";
import { Checks } from "../../checks.ts";
import { type Context, callersOf } from "../../context.ts";
import type { Cost, Rule } from "../../rule.ts";
import type { RuleResult } from "../../rule-result.ts";
import { type Answer, inWords } from "../../sending/answer.ts";
import { readSseText, type SseText } from "../../sending/sse-text.ts";

const STREAM_ROUTES: Readonly<Record<Stream, RouteName>> = {
  control: "chat.control",
  summary: "chat.summary",
  button: "chat.button",
};

export type Specimen = { stream: Stream; answer: Answer; sse: SseText };

export const specimenOf = async (context: Context, stream: Stream): Promise<Specimen | null> => {
  const [caller] = callersOf(context, "ai");
  if (caller === undefined) return null;
  const answer = await context.send({ route: STREAM_ROUTES[stream], ...caller, wholeStream: true });
  return { stream, answer, sse: readSseText(answer.chunks) };
};

export const specimens = (context: Context): Promise<Specimen[]> =>
  context.once("streams", async () => {
    const read = await Promise.all((Object.keys(STREAM_ROUTES) as Stream[]).map((name) => specimenOf(context, name)));
    return read.filter((specimen) => specimen !== null);
  });

export const isOpen = ({ answer }: Specimen): boolean => answer.status === 200 && !answer.transient;
export const isStream = (specimen: Specimen): boolean => isOpen(specimen) && specimen.answer.received.seen !== null;

export type StreamRule = Omit<Rule, "run" | "phase" | "needs" | "cost">;

/** One stream of each kind, read to its end. */
export const SPECIMENS_COST: Cost = { calls: 3, shared: "streams" };

/** Looks at each specimen that was opened; what was not opened is unclear, unless its body is not shown. */
export const streamRule = (
  rule: StreamRule,
  only: readonly Stream[],
  judge: (checks: Checks, specimen: Specimen) => void,
  isFit: (specimen: Specimen) => boolean = isStream,
): Rule => ({
  ...rule,
  phase: "streams",
  needs: { anyOf: ["publishable", "server"] },
  cost: SPECIMENS_COST,
  run: async (context): Promise<RuleResult> => {
    const checks = new Checks(rule.title);
    for (const specimen of await specimens(context)) {
      if (!only.includes(specimen.stream)) continue;
      if (isFit(specimen)) judge(checks, specimen);
      else if (specimen.answer.transient) checks.unclear(inWords(specimen.answer));
      else checks.note(`${specimen.stream}: no stream (${inWords(specimen.answer)})`);
    }
    return checks.result("no stream showed it");
  },
});

export const ALL_STREAMS: readonly Stream[] = ["control", "summary", "button"];

/** Events of section 6: any stream may carry them, so they make no contract. */
export const SHARED_EVENTS: ReadonlySet<string | null> = new Set([ERROR_EVENT, "quota"]);
