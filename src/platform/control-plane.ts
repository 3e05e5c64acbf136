/** The control plane of all parts of one process, guarded by a token. Every part applies a change, or none does. */
import { type Static, Type } from "typebox";
import { isObject } from "../contract/refusals.ts";
import { ROUTE_NAMES } from "../contract/routes.ts";
import * as serving from "./links/http-service.ts";
import type { Clock } from "./ports.ts";

/** 16 or more visible ASCII characters: valid in an HTTP header without encoding, and too long to guess. */
export const isUsableToken = (token: string): boolean => /^[\x21-\x7e]{16,}$/.test(token);

const Whole = Type.Integer({ minimum: 0 });
/** A hundred years, within which dates stay valid and years have four digits. */
const OFFSET_MS_MAX = 100 * 365 * 86_400_000;

/** `truncate` ends the connection in mid-answer; `route_error`: a 200 with an `error` key, in a stream the event. */
const FAIL_NEXT = Type.Object({
  route: Type.Enum([...ROUTE_NAMES]),
  mode: Type.Enum(["error_event", "truncate", "reset", "route_error"]),
  /** Content events that a stream sends before it fails. */
  after_events: Type.Optional(Whole),
  count: Whole,
});
export type FailPlan = Static<typeof FAIL_NEXT>;

/** The fields of all roles. A role that runs alone accepts fields of the others and ignores them. */
const FIELDS = {
  sessions: Type.Enum(["enabled", "disabled", "not_configured"]),
  clock_offset_ms: Type.Refine(
    Type.Unknown(),
    (ms) => Number.isSafeInteger(ms) && Math.abs(ms as number) <= OFFSET_MS_MAX,
    () => "must be a whole number of milliseconds, at most a hundred years either way",
  ),
  global_in_flight: Whole,
  org_in_flight: Whole,
  fail_next: FAIL_NEXT,
  slots: Whole,
  service_factor: Type.Number({ exclusiveMinimum: 0, maximum: 1_000 }),
  upstreams: Type.Array(Type.String({ pattern: "^http://[^/]+$" }), { minItems: 1 }),
};
const CHANGE = Type.Partial(Type.Object(FIELDS));
type DeploymentChange = Static<typeof CHANGE>;

/** What one role brings to a control plane. In one process, all roles share one listener and one `PATCH /deployment`. */
export type ControlPart = {
  routes: serving.ServiceRoute[];
  /** Applies the fields that it knows; all were checked before. */
  change?(change: DeploymentChange): void;
  /** The current values that `PATCH /deployment` can change here, so that a change can be undone. */
  deployment?(): Record<string, unknown>;
};

export type Service = { url: string; control: ControlPart; close(): Promise<void> };

/** Saves the clock's offset outside this process. If it fails, the offset may have been saved nevertheless. */
export type SaveOffset = (offsetMs: number) => Promise<unknown>;

/** Saves the offset. If that fails, restores the old one and throws an error that says whether that worked. */
const saved = async (save: SaveOffset, offsetMs: number, beforeMs: number): Promise<void> => {
  try {
    await save(offsetMs);
  } catch (error) {
    const left = await save(beforeMs).then(
      () => "nothing was changed",
      () => "what was saved could not be taken back either, so the store may hold it: send it again, or the old one",
    );
    throw new serving.RequestError(503, `the change could not be saved (${serving.reasonOf(error)}); ${left}`);
  }
};

export const startControlPlane = (options: {
  host?: string;
  port: number;
  parts: readonly ControlPart[];
  token: string;
  clock: Clock;
  saveOffset?: SaveOffset;
}): Promise<serving.HttpService> => {
  const { host = "127.0.0.1", port, parts, token, clock, saveOffset } = options;
  const state = (): Record<string, unknown> =>
    Object.assign({ clock_offset_ms: clock.offsetMs() }, ...parts.map((part) => part.deployment?.()));
  const apply = async (change: DeploymentChange): Promise<Record<string, unknown>> => {
    const offsetMs = change.clock_offset_ms as number | undefined;
    if (offsetMs !== undefined) {
      if (saveOffset !== undefined) await saved(saveOffset, offsetMs, clock.offsetMs());
      clock.setOffsetMs(offsetMs);
    }
    for (const part of parts) part.change?.(change);
    return state();
  };
  let last: Promise<unknown> = Promise.resolve();
  const checked = serving.routeWith(CHANGE, "PATCH", "/deployment", (change) => {
    // Changes are applied one after the other, so that none meets a half-applied one.
    const turn = last.then(() => apply(change));
    last = turn.catch(() => {});
    return turn;
  });
  const patch: serving.ServiceRoute = {
    ...checked,
    answer: (request) => {
      const { body } = request;
      if (!isObject(body))
        throw new serving.RequestError(422, 'expected a JSON object, for example {"clock_offset_ms":0}');
      const unknown = Object.keys(body).find((field) => !Object.hasOwn(FIELDS, field));
      if (unknown === undefined) return checked.answer(request);
      const known = Object.keys(FIELDS).join(", ");
      throw new serving.RequestError(422, `expected one of ${known}, got ${unknown}; nothing was changed`);
    },
  };
  return serving.startHttpService({
    host,
    port,
    routes: [...parts.flatMap(({ routes }) => routes), serving.route("GET", "/deployment", state), patch],
    admit: serving.admitToken(token, host),
  });
};
