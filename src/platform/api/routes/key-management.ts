/** Key management (items 124-142, B5); neither shed nor limited (A22): keys must be revocable during overload. */
import type { ServerResponse } from "node:http";
import type { BodyError } from "../../../contract/envelopes.ts";
import { outcomeOf } from "../../../contract/refusals.ts";
import type { BodyRead, Refuse } from "../../../core/call.ts";
import type { KeyUpdate } from "../../../core/management.ts";
import { isBlock, normalizeOrigin } from "../../../core/origin.ts";
import type { KeyChange } from "../../keys.ts";
import { reasonOf } from "../../reason-of.ts";
import { jsonHeaders } from "../answer.ts";
import { credentialOf, requestIdOf } from "../caller.ts";
import { type ApiContext, recordCall } from "../context.ts";
import { type Asked, readRequest } from "../request-body.ts";

const DOES = { "keys.create": "create", "keys.update": "update", "keys.delete": "revoke" } as const;
type ManagementRoute = keyof typeof DOES;
type Answer = { status: number; body?: object } | Refuse;

const fault = (field: string, i: number, msg: string): BodyError => ({ loc: ["body", field, i], msg, type: "value" });

/** Finds what a schema cannot: origins and addresses that can never match (items 52, 55). */
const faultsOf = ({ allowed_origins = [], allowed_ips = [] }: KeyUpdate): BodyError[] => {
  const origins = allowed_origins.flatMap((origin, i) =>
    normalizeOrigin(origin) === null ? [fault("allowed_origins", i, "expected scheme://host[:port]")] : [],
  );
  const addresses = allowed_ips.flatMap((block, i) =>
    isBlock(block) ? [] : [fault("allowed_ips", i, "expected an address or a CIDR block")],
  );
  return [...origins, ...addresses].slice(0, 8);
};

const decide = async (
  { keyManagement: keys, keyServiceBudgetMs: budgetMs, keyCache, log }: ApiContext,
  route: ManagementRoute,
  asked: Asked,
  admin: ReturnType<ApiContext["adminTokens"]>,
): Promise<Answer> => {
  if (admin === null) return { refuse: "unauthenticated" };
  if (admin.role !== "org_admin") return { refuse: "forbidden" };
  const read = await new Promise<BodyRead | null>((resolve) => {
    asked.raw.once("close", () => resolve(null));
    readRequest(route, asked, resolve);
  });
  if (read === null) return { refuse: "payload_too_large" };
  if (!read.ok) return { refuse: "malformed_body", errors: read.errors };
  const faults = route === "keys.delete" ? [] : faultsOf(read.value as KeyUpdate);
  if (faults.length > 0) return { refuse: "malformed_body", errors: faults };
  const { key_id: id = "" } = asked.params as { key_id?: string };
  try {
    const change = { does: DOES[route], org: admin.org_id, id, request: read.value } as KeyChange;
    const changed = await keys.change(change, budgetMs);
    if ("refuse" in changed) return changed;
    if (route === "keys.delete") return { status: 204 };
    return { status: route === "keys.create" ? 201 : 200, body: { ...changed.key, key: changed.secret } };
  } catch (error) {
    log.debug({ reason: reasonOf(error) }, "no answer from the key service");
    return { refuse: "key_service_unavailable" };
  } finally {
    // This replica sees the change at once, even if the answer was lost.
    if (route !== "keys.create") keyCache.forget(id);
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
  const credential = credentialOf(request.headers);
  const admin = context.adminTokens(credential ?? "", context.clock.nowMs());
  context.managing += 1;
  response.on("error", () => {});
  const answer = await decide(context, route, asked, admin).catch((error: unknown): Answer => {
    context.log.error({ requestId, route, reason: reasonOf(error) }, "a call broke");
    return { refuse: "key_service_unavailable" };
  });
  context.managing -= 1;
  const outcome = "refuse" in answer ? outcomeOf(answer.refuse) : String(answer.status);
  recordCall(context, givenId, requestId, route, admin?.org_id ?? "-", outcome, beganMs, { credential });
  if (request.socket.destroyed) return;
  if (context.stopping) response.shouldKeepAlive = false;
  const text = "body" in answer ? JSON.stringify(answer.body) : "";
  const { status, headers, body } =
    "refuse" in answer
      ? context.parts.writeRefusal(answer)
      : { status: answer.status, headers: text === "" ? [] : jsonHeaders(text), body: text };
  const shared = ["X-Request-Id", requestId, "Vary", "Origin", "Cache-Control", "no-store"];
  context.parts.writeAnswer(response, status, [...headers, ...shared], body);
};
