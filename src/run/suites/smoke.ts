/** The main job: every rule and every refusal once, both overloads, and each link broken in two ways. At most three minutes. */

import type { StagePlan } from "../../stages/stage-plan.ts";
import { EVERYWHERE, loadStage, METERS, STREAMS } from "../../stages/stage-plan.ts";
import { experimentNamed } from "./experiment-stage.ts";
import { afterLoad, chatPastCapacity, rateLimitEdge, tileQuotaStampede, verifyStage } from "./parts.ts";
import type { Suite } from "./suite.ts";

const everyRoute = loadStage({
  name: "smoke",
  ratePerS: 40,
  judges: [
    ...EVERYWHERE,
    ...STREAMS,
    ...METERS,
    "admission-is-stored-and-tier",
    "session-lifetime-is-bounded",
    "organizations-do-not-share",
    "events-are-not-buffered",
    "stream-vocabularies-differ",
    "admits-what-is-allowed",
  ],
  reaches: ["200", "401", "403 origin_required", "403 session_origin_mismatch", "422 malformed_body"],
});

const deploymentStates = loadStage({
  name: "deployment-states",
  story: "smoke",
  ratePerS: 50,
  durationS: 30,
  disturbance: {
    kind: "operator-changes",
    changes: [
      { patch: { sessions: "disabled" }, holdMs: 1_500 },
      { patch: { sessions: "not_configured" }, holdMs: 1_500 },
      {
        patch: {
          sessions: "enabled",
          fail_next: { route: "chat.control", mode: "error_event", after_events: 3, count: 2 },
        },
        holdMs: 1_500,
      },
      { patch: { sessions: "enabled" }, holdMs: 0 },
    ],
  },
  judges: [...EVERYWHERE, ...STREAMS, "refused-is-not-charged"],
  reaches: ["200", "403 sessions_disabled", "403 sessions_not_configured", "200 error"],
});

export const smoke: Suite = {
  name: "smoke",
  purpose: "every rule and refusal once, both overloads, each link broken in two ways: three minutes",
  stages: (given): StagePlan[] => [
    verifyStage(given),
    everyRoute,
    deploymentStates,
    rateLimitEdge(4),
    chatPastCapacity(10),
    tileQuotaStampede(),
    experimentNamed(given, "limiter-refused"),
    experimentNamed(given, "limiter-reply-lost"),
    experimentNamed(given, "keys-refused"),
    experimentNamed(given, "keys-reply-lost"),
    ...afterLoad(given),
  ],
};
