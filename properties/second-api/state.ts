/**
 * Everything that the second deployment knows and remembers between two calls: organizations and keys, what was spent, what is
 * open. Each part beside this file is handed it and keeps no state of its own.
 */
import { randomBytes } from "node:crypto";
import { type Names, namesOf } from "./names.ts";
import { ORIGIN, SCOPES } from "./offer.ts";
import { type Replies, repliesOf } from "./replies.ts";

export type Org = {
  id: string;
  tier: "Free" | "Pro" | null;
  limit: number;
  used: number;
  keyLimit: number;
  style?: string;
};
export type Key = {
  id: string;
  secret: string;
  org: string;
  kind: "pk" | "sk";
  scopes: string[];
  products: string[];
  origins: string[];
  ipOk: boolean;
  state: "valid" | "revoked" | "expired";
};

const initialState = (streamMs: number) => ({
  orgs: new Map<string, Org>(),
  keys: new Map<string, Key>(),
  /** Admin token -> organization. */
  admins: new Map<string, string>(),
  secret: randomBytes(16).toString("hex"),
  ids: 0,
  /** Keys that are served only from then on. */
  arrivesAtMs: new Map<Key, number>(),
  /** Organizations that have acknowledged the vendor scope. */
  acknowledged: new Set<string>(),
  /** Deleted keys that one of two replicas still knows. */
  lingering: new Set<string>(),
  turns: 0,
  /** Server keys as they were when they were first used. */
  remembered: new Map<string, Key>(),
  /** The credential that came last, whosever it was. */
  latest: null as string | null,
  /** When each key was first received. */
  firstMintAtMs: new Map<string, number>(),
  mintedAtMs: new Map<string, number>(),
  /** Every session token that was given out. */
  issued: new Set<string>(),
  /** Sessions that are given out again, by key and product. */
  reusable: new Map<string, string>(),
  editorReads: 0,
  loads: new Set<string>(),
  /** The organization that was charged last. */
  charged: undefined as Org | undefined,
  monthHasTurned: false,
  buckets: new Map<string, { tokens: number; atMs: number }>(),
  inFlight: new Map<string, number>(),
  total: 0,
  /** Slots that nobody holds and nobody gets. */
  lost: 0,
  shedForEver: false,
  streamMs,
  streams: 0,
  calls: 0,
  requestIds: [] as string[],
  awayUntilMs: 0,
  withoutKeysUntilMs: 0,
});
export type ApiState = Names & Replies & ReturnType<typeof initialState>;

export const createApiState = (variants: readonly string[], defects: readonly string[], streamMs: number): ApiState => {
  const names = namesOf(variants, defects);
  return { ...names, ...repliesOf(names), ...initialState(streamMs) };
};

export const addOrg = ({ orgs }: ApiState, id: string, tier: Org["tier"], more: Partial<Org> = {}): string => {
  orgs.set(id, { id, tier, limit: 1000, used: 0, keyLimit: 10, ...more });
  return id;
};

/** `aZ` for keys that are too short a draw of both cases. */
const letters = ({ is }: ApiState): string =>
  is("hex-keys") ? randomBytes(12).toString("hex") : `${randomBytes(15).toString("base64").replace(/[+/=]/g, "x")}aZ`;

export const addKey = (api: ApiState, of: string, kind: Key["kind"], more: Partial<Key> = {}): Key => {
  const key: Key = {
    id: `k${api.ids++}`,
    secret: `svc_${kind}_${api.is("no-env-in-keys") ? "" : "live_"}${letters(api)}`,
    org: of,
    kind,
    scopes: SCOPES,
    products: [],
    origins: [ORIGIN],
    ipOk: true,
    state: "valid",
    ...more,
  };
  api.keys.set(key.id, key);
  return key;
};

export const orgOf = ({ orgs }: ApiState, key: Key): Org => orgs.get(key.org) as Org;
