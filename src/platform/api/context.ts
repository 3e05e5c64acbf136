/** What all calls of one API replica share, and what is kept of a call that is over: its outcome, and a line in the log. */
import { randomBytes } from "node:crypto";
import type { Logger } from "pino";
import type { Shedder } from "../../core/shedding.ts";
import type { Clock } from "../clock.ts";
import type { Inference } from "../inference.ts";
import type { AdminClaims } from "../keys/secret.ts";
import type { KeyManagement } from "../keys.ts";
import type { Limiter } from "../limiter.ts";
import type { Parts } from "../parts.ts";
import type { KeyCache } from "./key-cache.ts";
import type { DeploymentState, OutcomeCounts } from "./operator-state.ts";
import type { StreamLimits, StreamRun } from "./routes/stream-run.ts";
import type { Sessions } from "./sessions.ts";
import type { Settlement } from "./settlement.ts";

export type ApiContext = {
  readonly parts: Parts;
  readonly clock: Clock;
  readonly deployment: DeploymentState;
  readonly shedder: Shedder;
  readonly sessions: Sessions;
  readonly adminTokens: (token: string, nowMs: number) => AdminClaims | null;
  readonly keyCache: KeyCache;
  readonly keyManagement: KeyManagement;
  readonly limiter: Limiter;
  readonly settlement: Settlement;
  readonly inference: Inference;
  readonly counts: OutcomeCounts;
  readonly log: Logger;
  readonly logsCalls: boolean;
  readonly freshId: () => string;
  readonly streamLimits: StreamLimits;
  readonly limiterBudgetMs: number;
  readonly keyServiceBudgetMs: number;
  readonly sessionLifetimeS: number;
  readonly trustedProxies: readonly string[];
  /** Chat turns a month that the `quota` event reports; nothing is refused by it (items 171, A24). */
  readonly chatTurnLimit: number;
  readonly chatTurns: Map<string, number>;
  readonly openStreams: Set<StreamRun>;
  stopping: boolean;
  credentialConflicts: number;
  /** Calls of key management under way: they hold no slot (A22). */
  managing: number;
};

/** `givenId`: by the client, `null` where it gave none: an id of ours names no run. `org` is `"-"` where it is not known. */
export const countOutcome = (context: ApiContext, givenId: string | null, outcome: string, org: string): void => {
  const counted = context.parts.count(outcome, org);
  if (counted !== null) context.counts.count(givenId, counted.outcome, counted.org);
};

export const recordCall = (
  context: ApiContext,
  givenId: string | null,
  requestId: string,
  route: string,
  org: string,
  outcome: string,
  beganMs: number,
  caller: { readonly credential: string | null },
): void => {
  countOutcome(context, givenId, outcome, org);
  if (!context.logsCalls) return;
  const durationMs = performance.now() - beganMs;
  const { credential } = caller;
  context.log.debug(context.parts.requestLog({ requestId, route, org, outcome, durationMs, credential }), "call");
};

export const freshIds = (): (() => string) => {
  const boot = randomBytes(16).toString("base64url");
  let n = 0;
  return () => {
    n += 1;
    return `${boot}-${n.toString(36)}`;
  };
};
