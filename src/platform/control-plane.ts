/**
 * The control plane of one process: a separate listener for all its parts, open to callers that send its bearer token.
 * It serves `/deployment` itself: every part applies a change, or none does.
 */
import { hash, timingSafeEqual } from "node:crypto";
import { hostname } from "node:os";
import { whyForeign } from "../contract/private-door.ts";
import { type HttpService, RequestError, route, type ServiceRoute, startHttpService } from "./links/http-service.ts";
import { reasonOf } from "./reason-of.ts";

/** 16 or more visible ASCII characters: valid in an HTTP header without encoding, and too long to guess. */
const USABLE = /^[\x21-\x7e]{16,}$/;

export const isUsableToken = (token: string): boolean => USABLE.test(token);

/** Digests have one length, so a comparison in constant time tells nothing about the token. */
const digest = (text: string): Buffer => hash("sha256", text, "buffer");

/**
 * A change that was read and fits. All parts `save` what can fail before any applies; applying cannot fail, and returns
 * the new settings.
 */
export type DeploymentChange = {
  save?(): Promise<unknown>;
  /** Puts back what was before `save`, also where `save` failed and nobody knows what it did. */
  restore?(): Promise<unknown>;
  apply(): Record<string, unknown>;
};

/** What one role brings to a control plane. In one process, all roles share one listener and one `PATCH /deployment`. */
export type ControlPart = {
  routes: ServiceRoute[];
  /** Reads the fields it knows and ignores the others; throws where one does not fit. */
  readDeployment(body: Record<string, unknown>): DeploymentChange;
  /** What `PATCH /deployment` can change here, as it is now: so that a change can be undone. */
  deployment?(): Record<string, unknown>;
};

export type Service = { url: string; control: ControlPart; close(): Promise<void> };

/** Of all roles: a role of its own is sent what is meant for the others too, and leaves it to them. */
const FIELDS = [
  ...["sessions", "clock_offset_ms", "global_in_flight", "org_in_flight", "fail_next"],
  ...["slots", "service_factor", "upstreams"],
];

/** Saves every change, or takes back those that were saved and says how that went. */
const saveAll = async (changes: readonly DeploymentChange[]): Promise<void> => {
  const begun: DeploymentChange[] = [];
  for (const change of changes) {
    begun.push(change);
    try {
      await change.save?.();
    } catch (error) {
      const restored = await Promise.allSettled(begun.reverse().map((each) => each.restore?.()));
      const failed = restored.find(({ status }) => status === "rejected");
      const left =
        failed === undefined
          ? "nothing was changed"
          : "what was saved could not be taken back either, so the store may hold the change: send it again, or the old one";
      throw new RequestError(503, `the change could not be saved (${reasonOf(error)}); ${left}`);
    }
  }
};

/** One change after the other: a second one that came meanwhile must not meet half of the first. */
const deploymentRoute = (parts: readonly ControlPart[]): ServiceRoute => {
  let last: Promise<unknown> = Promise.resolve();
  const change = async (body: Record<string, unknown>): Promise<Record<string, unknown>> => {
    const changes = parts.map((part) => part.readDeployment(body));
    await saveAll(changes);
    return Object.assign({}, ...changes.map(({ apply }) => apply()));
  };
  return {
    method: "PATCH",
    path: "/deployment",
    handle: async ({ body }) => {
      if (typeof body !== "object" || body === null || Array.isArray(body)) {
        throw new RequestError(422, 'expected a JSON object, for example {"clock_offset_ms":0}');
      }
      const unknown = Object.keys(body).find((field) => !FIELDS.includes(field));
      if (unknown !== undefined) {
        throw new RequestError(422, `expected one of ${FIELDS.join(", ")}, got ${unknown}; nothing was changed`);
      }
      const turn = last.then(() => change(body as Record<string, unknown>));
      last = turn.catch(() => {});
      return { status: 200, body: await turn };
    },
  };
};

export const startControlPlane = (options: {
  host?: string;
  port: number;
  parts: readonly ControlPart[];
  token: string;
}): Promise<HttpService> => {
  const { host = "127.0.0.1", port, parts, token } = options;
  const door = { bound: host, names: [hostname().toLowerCase()] };
  const wanted = digest(token);
  const state = route("GET", "/deployment", () => Object.assign({}, ...parts.map((part) => part.deployment?.())));
  return startHttpService({
    host,
    port,
    routes: [...parts.flatMap(({ routes }) => routes), state, deploymentRoute(parts)],
    admit: (request, response) => {
      const foreign = whyForeign(request, door);
      if (foreign !== null) throw new RequestError(foreign.status, foreign.error);
      const sent = /^bearer +(.*)$/i.exec(request.headers.authorization ?? "")?.[1] ?? "";
      if (timingSafeEqual(digest(sent), wanted)) return;
      response.setHeader("www-authenticate", "Bearer");
      throw new RequestError(401, "expected Authorization: Bearer with this service's token");
    },
  });
};

/** A hundred years: months have names of four digits, and dates stay dates. */
const OFFSET_MS_MAX = 100 * 365 * 86_400_000;

export const readClockOffset = (body: Record<string, unknown>): number | undefined => {
  const offset = body.clock_offset_ms;
  if (offset === undefined) return undefined;
  if (typeof offset !== "number" || !Number.isSafeInteger(offset) || Math.abs(offset) > OFFSET_MS_MAX) {
    throw new RequestError(
      422,
      "expected clock_offset_ms to be a whole number of milliseconds, at most a hundred years either way",
    );
  }
  return offset;
};
