/**
 * Key management (specification 4.4, 7.3; items 124-142, B5): an admin's token, a well-formed body, then the decision
 * where the keys are. Neither shed nor rate limited (A22): keys must be revocable during overload.
 */
import type { ServerResponse } from "node:http";
import type { BodyError } from "../../../contract/envelopes.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import type { RouteName } from "../../../contract/routes.ts";
import type { BodyRead, Refuse } from "../../../core/call.ts";
import type { KeyCreation, KeyUpdate } from "../../../core/management.ts";
import { isBlock, normalizeOrigin } from "../../../core/origin.ts";
import { reasonOf } from "../../reason-of.ts";
import { jsonHeaders } from "../answer.ts";
import { credentialOf, requestIdOf } from "../caller.ts";
import { type ApiContext, recordCall } from "../context.ts";
import { type Asked, readRequest } from "../request-body.ts";

type ManagementRoute = Extract<RouteName, `keys.${string}`>;
type Answer = { status: number; body?: object } | Refuse;

const fault = (field: string, i: number, msg: string): BodyError => ({ loc: ["body", field, i], msg, type: "value" });

/** What a schema cannot say: each origin and each address must be one that can ever match (items 52, 55). */
const faultsOf = ({ allowed_origins = [], allowed_ips = [] }: KeyUpdate): BodyError[] => {
  const origins = allowed_origins.flatMap((origin, i) =>
    normalizeOrigin(origin) === null ? [fault("allowed_origins", i, "expected scheme://host[:port]")] : [],
  );
  const addresses = allowed_ips.flatMap((block, i) =>
    isBlock(block) ? [] : [fault("allowed_ips", i, "expected an address or a CIDR block")],
  );
  return [...origins, ...addresses].slice(0, 8);
};

const manage = async (
  { keyManagement: keys, keyServiceBudgetMs: budgetMs, keyCache }: ApiContext,
  route: ManagementRoute,
  org: string,
  id: string,
  body: unknown,
): Promise<Answer> => {
  if (route === "keys.create") {
    const made = await keys.create(org, body as KeyCreation, budgetMs);
    return "refuse" in made ? made : { status: 201, body: { ...made.key, key: made.secret } };
  }
  try {
    if (route === "keys.update") {
      const changed = await keys.update(org, id, body as KeyUpdate, budgetMs);
      return "refuse" in changed ? changed : { status: 200, body: changed.key };
    }
    const revoked = await keys.revoke(org, id, budgetMs);
    return "refuse" in revoked ? revoked : { status: 204 };
  } finally {
    // Seen at once through this replica, also when the answer was lost.
    keyCache.forget(id);
  }
};

const decide = async (
  context: ApiContext,
  route: ManagementRoute,
  asked: Asked,
  knowsOrg: (org: string) => void,
): Promise<Answer> => {
  const token = credentialOf(asked.raw.headers);
  const admin = token === null ? null : context.adminTokens(token, context.clock.nowMs());
  if (admin === null) return { refuse: "unauthenticated" };
  knowsOrg(admin.org_id);
  if (admin.role !== "org_admin") return { refuse: "forbidden" };
  const read = await new Promise<BodyRead | null>((resolve) => {
    asked.raw.once("close", () => resolve(null));
    readRequest(route, asked, resolve);
  });
  if (read === null) return { refuse: "payload_too_large" };
  if (!read.ok) return { refuse: "malformed_body", errors: read.errors };
  const faults = route === "keys.delete" ? [] : faultsOf(read.value as KeyUpdate);
  if (faults.length > 0) return { refuse: "malformed_body", errors: faults };
  const id = (asked.params as { key_id?: string }).key_id ?? "";
  try {
    return await manage(context, route, admin.org_id, id, read.value);
  } catch (error) {
    context.log.debug({ reason: reasonOf(error) }, "no answer from the key service");
    return { refuse: "key_service_unavailable" };
  }
};

export const manageKeys = async (
  context: ApiContext,
  route: ManagementRoute,
  asked: Asked,
  response: ServerResponse,
): Promise<void> => {
  const { raw: request } = asked;
  const beganMs = performance.now();
  const givenId = requestIdOf(request.headers);
  const requestId = givenId ?? context.freshId();
  let org = "-";
  context.managing += 1;
  response.on("error", () => {});
  const answer = await decide(context, route, asked, (known) => {
    org = known;
  }).catch((error: unknown): Answer => {
    context.log.error({ requestId, route, reason: reasonOf(error) }, "a call broke");
    return { refuse: "key_service_unavailable" };
  });
  context.managing -= 1;
  const refused = "refuse" in answer;
  const outcome = refused ? outcomeOf(answer.refuse) : String(answer.status);
  const credential = credentialOf(request.headers);
  recordCall(context, givenId, requestId, route, org, outcome, beganMs, { credential });
  if (request.socket.destroyed) return;
  if (context.stopping) response.shouldKeepAlive = false;
  const shared = ["X-Request-Id", requestId, "Vary", "Origin", "Cache-Control", "no-store"];
  if (refused) {
    const { status, headers, body } = context.parts.writeRefusal(answer);
    return context.parts.writeAnswer(response, status, [...headers, ...shared], body);
  }
  const body = answer.body === undefined ? "" : JSON.stringify(answer.body);
  const headers = answer.body === undefined ? shared : [...jsonHeaders(body), ...shared];
  context.parts.writeAnswer(response, answer.status, headers, body);
};
