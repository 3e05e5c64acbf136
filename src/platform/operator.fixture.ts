/** Services with a control plane of their own, and what an operator asks of it, for tests. */

import type { LedgerLine } from "../contract/routes.ts";
import type { KeyRecord, Organization } from "../core/call.ts";
import { type ControlPart, startControlPlane } from "./control-plane.ts";
import type { OperableKeys } from "./keys/keys.fixture.ts";
import { type HttpService, RequestError } from "./links/http-service.ts";
import type { Clock, Keys, Limiter, OperableLimiter } from "./ports.ts";

/** As `startServe` has it. */
const TOKEN = "a-control-token-for-tests";

export const openControl = (part: ControlPart, clock: Clock): Promise<HttpService> =>
  startControlPlane({ port: 0, parts: [part], token: TOKEN, clock });

/** One control-plane call. */
export const operate = async (url: string, method: string, path: string, body?: unknown) => {
  const response = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return { status: response.status, text: await response.text() };
};

/** A limiter over its link, operated at its control plane. */
export const operatedLimiter = (limiter: Limiter, control: string): OperableLimiter => ({
  ...limiter,
  ledger: async function* (run) {
    const { text } = await operate(control, "GET", `/ledger?run=${encodeURIComponent(run)}`);
    for (const line of text.split("\n")) if (line !== "") yield JSON.parse(line) as LedgerLine;
  },
  setClockOffset: async (offsetMs) =>
    void (await operate(control, "PATCH", "/deployment", { clock_offset_ms: offsetMs })),
});

/** Keys over their link, operated at their control plane. */
export const operatedKeys = (keys: Keys, control: string): OperableKeys => {
  const record = async <T>(method: string, path: string, body?: unknown): Promise<T | null> => {
    const { status, text } = await operate(control, method, path, body);
    const answer = JSON.parse(text) as T & { error?: string };
    if (status === 404) return null;
    if (status === 422) throw new RequestError(status, `${answer.error}`);
    return answer;
  };
  return {
    ...keys,
    putOrganization: async (input) => (await record<Organization>("POST", "/orgs", input)) as Organization,
    organization: (id) => record("GET", `/orgs/${encodeURIComponent(id)}`),
    putKey: async (input) => {
      const { key: secret, ...key } = (await record("POST", "/keys", input)) as KeyRecord & { key: string };
      return { key, secret };
    },
    patchKey: (id, patch) => record("PATCH", `/keys/${encodeURIComponent(id)}`, patch),
  };
};
