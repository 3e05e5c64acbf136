/** The control plane of one process, by token, for all its parts. A change is applied by every part or none. */
import { hash, timingSafeEqual } from "node:crypto";
import { hostname } from "node:os";
import { isObject } from "../contract/envelopes.ts";
import { whyForeign } from "../contract/private-door.ts";
import type { Clock } from "./clock.ts";
import { type HttpService, RequestError, route, type ServiceRoute, startHttpService } from "./links/http-service.ts";
import { reasonOf } from "./reason-of.ts";

/** 16 or more visible ASCII characters: valid in an HTTP header without encoding, and too long to guess. */
const USABLE = /^[\x21-\x7e]{16,}$/;

export const isUsableToken = (token: string): boolean => USABLE.test(token);

/** Digests have one length, so a comparison in constant time tells nothing about the token. */
const digest = (text: string): Buffer => hash("sha256", text, "buffer");

/** What one role brings to a control plane. In one process, all roles share one listener and one `PATCH /deployment`. */
export type ControlPart = {
  routes: ServiceRoute[];
  /** Reads the fields it knows and ignores the others; throws where one does not fit. What it returns applies them. */
  readDeployment?(body: Record<string, unknown>): () => void;
  /** What `PATCH /deployment` can change here, as it is now: so that a change can be undone. */
  deployment?(): Record<string, unknown>;
};

export type Service = { url: string; control: ControlPart; close(): Promise<void> };

/** Of all roles: a role of its own is sent what is meant for the others too, and leaves it to them. */
const FIELDS = [
  ...["sessions", "clock_offset_ms", "global_in_flight", "org_in_flight", "fail_next"],
  ...["slots", "service_factor", "upstreams"],
];

/** A hundred years: months have names of four digits, and dates stay dates. */
const OFFSET_MS_MAX = 100 * 365 * 86_400_000;

const readClockOffset = (offset: unknown): number | undefined => {
  if (offset === undefined || (Number.isSafeInteger(offset) && Math.abs(offset as number) <= OFFSET_MS_MAX)) {
    return offset as number | undefined;
  }
  throw new RequestError(
    422,
    "expected clock_offset_ms to be a whole number of milliseconds, at most a hundred years either way",
  );
};

/** Where the clock's offset is kept beside this process; one that fails may have kept it all the same. */
export type SaveOffset = (offsetMs: number) => Promise<unknown>;

/** Saves the offset, or takes it back and says how that went. */
const saved = async (save: SaveOffset, offsetMs: number, beforeMs: number): Promise<void> => {
  try {
    await save(offsetMs);
  } catch (error) {
    const left = await save(beforeMs).then(
      () => "nothing was changed",
      () => "what was saved could not be taken back either, so the store may hold it: send it again, or the old one",
    );
    throw new RequestError(503, `the change could not be saved (${reasonOf(error)}); ${left}`);
  }
};

export const startControlPlane = (options: {
  host?: string;
  port: number;
  parts: readonly ControlPart[];
  token: string;
  clock: Clock;
  saveOffset?: SaveOffset;
}): Promise<HttpService> => {
  const { host = "127.0.0.1", port, parts, token, clock, saveOffset } = options;
  const door = { bound: host, names: [hostname().toLowerCase()] };
  const wanted = digest(token);
  const state = (): Record<string, unknown> =>
    Object.assign({ clock_offset_ms: clock.offsetMs() }, ...parts.map((part) => part.deployment?.()));
  /** All parts read before any applies. */
  const change = async (body: Record<string, unknown>): Promise<Record<string, unknown>> => {
    const offsetMs = readClockOffset(body.clock_offset_ms);
    const applies = parts.map((part) => part.readDeployment?.(body));
    if (offsetMs !== undefined) {
      if (saveOffset !== undefined) await saved(saveOffset, offsetMs, clock.offsetMs());
      clock.setOffsetMs(offsetMs);
    }
    for (const apply of applies) apply?.();
    return state();
  };
  let last: Promise<unknown> = Promise.resolve();
  const patch = route("PATCH", "/deployment", ({ body }) => {
    if (!isObject(body)) throw new RequestError(422, 'expected a JSON object, for example {"clock_offset_ms":0}');
    const unknown = Object.keys(body).find((field) => !FIELDS.includes(field));
    if (unknown !== undefined) {
      throw new RequestError(422, `expected one of ${FIELDS.join(", ")}, got ${unknown}; nothing was changed`);
    }
    // One after the other: a second change that came meanwhile must not meet half of the first.
    const turn = last.then(() => change(body));
    last = turn.catch(() => {});
    return turn;
  });
  return startHttpService({
    host,
    port,
    routes: [...parts.flatMap(({ routes }) => routes), route("GET", "/deployment", state), patch],
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
