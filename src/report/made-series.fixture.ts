/** A series made by hand, for the examples of this folder: load that rises past a cap, a fault, streams, three organizations. */

import type { CallLine } from "../history/line.ts";
import { type Series, seriesFold } from "../history/series.ts";

type MadeSeries = {
  stage?: string;
  calls?: number;
  /** Put in wherever a name stands. */
  text?: string;
  withFault?: boolean;
};

const EVERY_US = 10_000;
/** From this share of the calls on half of them are shed. */
const SHEDS_FROM = 0.4;

const foldMade = (
  fold: ReturnType<typeof seriesFold>,
  { stage = "chat-past-capacity", calls = 1_200, text = "", withFault = false }: MadeSeries,
): void => {
  const spanUs = calls * EVERY_US;
  for (let i = 0; i < calls; i++) {
    const dueUs = 5_000_000 + i * EVERY_US;
    const isShed = i > calls * SHEDS_FROM && i % 2 === 0;
    const isBroken = withFault && i > calls * 0.5 && i < calls * 0.7;
    const outcome = isBroken
      ? `429 limiter_unavailable${text}`
      : isShed
        ? i % 6 === 0
          ? "429 org_overloaded"
          : "429 b2b_overloaded"
        : "200";
    const sentUs = dueUs + 300 + (i % 97 === 0 ? 30_000 : 0);
    const line: CallLine = {
      type: "call",
      id: `a1b2.${stage}.c-${i}`,
      stage: stage + text,
      driver: "open-loop",
      org: `org_${i % 3}${text}`,
      route: "chat.control",
      intended_us: dueUs,
      started_us: sentUs,
      connect_us: 0,
      sent_us: sentUs,
      clock_error_us: 100,
      attempt: 0,
      outcome,
      first_us: sentUs + 20_000,
      done_us: sentUs + (outcome === "200" ? 120_000 + (i % 40) * 2_500 : 2_000 + (i % 7) * 300),
      ...(outcome === "200"
        ? {
            events: 3,
            ended: "done" as const,
            first_event_us: sentUs + 20_000,
            gaps_us: [20_000, 40_000 + (i % 9) * 1_000],
          }
        : {}),
    };
    fold.see(line);
    if (i % 50 === 0)
      fold.see({
        type: "sample",
        stage: stage + text,
        at_us: dueUs,
        values: { in_flight: 10 + (i % 60), generator_cores: 0.3, host_busy: 0.6, host_steal: 0.02 },
      });
  }
  if (withFault) {
    const fault = {
      type: "fault",
      stage: stage + text,
      experiment: `limiter-refused${text}`,
      link: "limiter",
      fault: "refused",
      stream: "both",
    } as const;
    const at = (share: number): number => 5_000_000 + share * spanUs;
    fold.see({ ...fault, phase: "injecting", at_us: at(0.499) });
    fold.see({ ...fault, phase: "injected", at_us: at(0.5), took_effect: true });
    fold.see({ ...fault, phase: "healing", at_us: at(0.69) });
    fold.see({ ...fault, phase: "healed", at_us: at(0.695) });
  }
  fold.limits(stage + text, { global_in_flight: 64 });
};

export const madeSeries = (...stages: readonly MadeSeries[]): Series => {
  const fold = seriesFold();
  for (const stage of stages.length === 0 ? [{}] : stages) foldMade(fold, stage);
  return fold.end();
};
