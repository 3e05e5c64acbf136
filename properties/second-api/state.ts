/**
 * The second deployment's whole state between calls: organizations and keys, what was used, what is open. All parts of the
 * deployment get this state and keep none of their own.
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
  /** Calls refused at a cap, each by the name of one of the two overloads. */
  sheds: 0,
  /** When a new key begins to be accepted. */
  arrivesAtMs: new Map<Key, number>(),
  /** Organizations that have acknowledged the vendor scope. */
  acknowledged: new Set<string>(),
  /** Deleted keys that one of two replicas still knows. */
  lingering: new Set<string>(),
  turns: 0,
  /** Server keys as they were at their first use. */
  remembered: new Map<string, Key>(),
  /** The credential of the latest call, of any caller. */
  latest: null as string | null,
  /** The key of the latest exchange that was admitted. */
  latestToMint: null as Key | null,
  /** When each key was first used for an exchange. */
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
  /** Slots that no call holds and none can get. */
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

/** Ends in `aZ`, so that a key always has letters of both cases. */
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
