/** Key management as commands: create, change and revoke, by the organization's own admin or by another's. */
import { expect } from "vitest";
import { outcomeOf } from "../../src/contract/refusals.ts";
import type { KeyRecord } from "../../src/core/call.ts";
import {
  decideCreation,
  decideRevocation,
  decideUpdate,
  type KeyCreation,
  type KeyUpdate,
  type ManagementRefusal,
} from "../../src/core/management.ts";
import { type Command, command, compare, keyAt, orgIdAt, pick, type Real, replace } from "./command-frame.ts";
import type { Model } from "./model.ts";

const manage = async (real: Real, org: string, method: "POST" | "PATCH" | "DELETE", id: string, body?: object) => {
  const { json } = await real.api.operate("POST", "/admin-tokens", { org });
  return real.api.call({
    method,
    path: `/shared-api/api-keys${id === "" ? "" : `/${id}`}`,
    credential: (json as { token: string }).token,
    ...(body === undefined ? {} : { body }),
  });
};
/** No keys are managed while a fault loses only the answer, because what was stored would be unknown. */
const managementIsCertain = (model: Readonly<Model>) => !["reply-lost", "truncated-reply"].includes(model.faults.keys);

const answerOf = (model: Model, decided: object | ManagementRefusal, success: number): string => {
  if (model.faults.keys !== "none") return outcomeOf("key_service_unavailable");
  return "refuse" in decided ? outcomeOf(decided.refuse as ManagementRefusal["refuse"]) : String(success);
};

export const create = (which: number, request: KeyCreation, livesMs: number | null): Command =>
  command(
    `create(${which}, ${JSON.stringify(request)}, ${livesMs})`,
    async (model, real, what) => {
      const org = model.org(orgIdAt(model, which));
      const expires_at = livesMs === null ? null : model.nowMs() + livesMs;
      const decided = decideCreation(org, model.liveKeys(org.id), { ...request, expires_at });
      const heard = await manage(real, org.id, "POST", "", { ...request, expires_at });
      compare(heard, { outcome: answerOf(model, decided, 201) }, what);
      if (heard.status !== 201) return;
      const { key: secret, ...key } = heard.json as Omit<KeyRecord, never> & { key: string };
      expect(key).toMatchObject(decided);
      expect(secret.startsWith(key.kind === "server" ? "svc_sk_" : "svc_pk_")).toBe(true);
      model.keys.push({ key, secret });
    },
    managementIsCertain,
  );

export const update = (which: number, request: KeyUpdate, asOther: boolean): Command =>
  command(
    `update(${which}, ${JSON.stringify(request)}, ${asOther})`,
    async (model, real, what) => {
      const known = keyAt(model, which);
      const owner = known.key.org_id;
      const org = asOther ? ([...model.orgs.keys()].find((id) => id !== owner) as string) : owner;
      const alive = model.isLive(known.key) ? known.key : null;
      const decided = decideUpdate(model.org(org), alive, request);
      const heard = await manage(real, org, "PATCH", known.key.id, request);
      compare(heard, { outcome: answerOf(model, decided, 200) }, what);
      if (heard.status !== 200) return;
      expect(heard.json).toEqual(decided);
      expect(heard.text).not.toContain(known.secret);
      replace(model, known, decided as KeyRecord);
    },
    managementIsCertain,
  );

export const revoke = (which: number): Command =>
  command(
    `revoke(${which})`,
    async (model, real, what) => {
      const known = pick(model.keys, which);
      const { org_id: org, id } = known.key;
      const decided = decideRevocation(model.org(org), known.key);
      const heard = await manage(real, org, "DELETE", id);
      compare(heard, { outcome: answerOf(model, decided, 204) }, what);
      if (heard.status === 204) replace(model, known, decided as KeyRecord);
    },
    managementIsCertain,
  );
