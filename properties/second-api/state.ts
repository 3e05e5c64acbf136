/**
 * Everything that the second deployment knows and remembers between two calls: organizations and keys, what was spent, what is
 * open. Each part beside this file is handed it and keeps no state of its own.
 */
import { randomBytes } from "node:crypto";
import type { Defect } from "./defects.ts";
import { type Names, namesOf } from "./names.ts";
import { ORIGIN, SCOPES } from "./offer.ts";
import { type Replies, repliesOf } from "./replies.ts";
import type { Variant } from "./variants.ts";

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

type State = {
  orgs: Map<string, Org>;
  /** By id. */
  keys: Map<string, Key>;
  /** Admin token -> organization. */
  admins: Map<string, string>;
  /** What sessions are signed with. */
  secret: string;
  /** For ids that no two things share. */
  ids: number;
  /** Keys that are served only from then on. */
  arrivesAtMs: Map<Key, number>;
  /** Organizations that have acknowledged the vendor scope. */
  acknowledged: Set<string>;
  /** Deleted keys that one of two replicas still knows. */
  lingering: Set<string>;
  turns: number;
  /** Server keys as they were when they were first used. */
  remembered: Map<string, Key>;

  /** The credential that came last, whosever it was. */
  latest: string | null;
  /** When each key was first received. */
  firstMintAtMs: Map<string, number>;
  mintedAtMs: Map<string, number>;
  /** Every session token that was given out. */
  issued: Set<string>;
  /** Sessions that are given out again, by key and product. */
  reusable: Map<string, string>;
  editorReads: number;

  /** Client ids that have been charged. */
  loads: Set<string>;
  /** The organization that was charged last. */
  charged: Org | undefined;
  monthHasTurned: boolean;

  /** By key. */
  buckets: Map<string, { tokens: number; atMs: number }>;
  /** By organization. */
  inFlight: Map<string, number>;
  total: number;
  /** Slots that nobody holds and nobody gets. */
  lost: number;
  shedForEver: boolean;

  streamMs: number;
  streams: number;
  calls: number;
  requestIds: string[];
  awayUntilMs: number;
  withoutKeysUntilMs: number;
};
export type ApiState = Names & Replies & State;

export const createApiState = (
  variants: readonly Variant[],
  defects: readonly Defect[],
  streamMs: number,
): ApiState => {
  const names = namesOf(variants, defects);
  return {
    ...names,
    ...repliesOf(names),
    orgs: new Map(),
    keys: new Map(),
    admins: new Map(),
    secret: randomBytes(16).toString("hex"),
    ids: 0,
    arrivesAtMs: new Map(),
    acknowledged: new Set(),
    lingering: new Set(),
    turns: 0,
    remembered: new Map(),
    latest: null,
    firstMintAtMs: new Map(),
    mintedAtMs: new Map(),
    issued: new Set(),
    reusable: new Map(),
    editorReads: 0,
    loads: new Set(),
    charged: undefined,
    monthHasTurned: false,
    buckets: new Map(),
    inFlight: new Map(),
    total: 0,
    lost: 0,
    shedForEver: false,
    streamMs,
    streams: 0,
    calls: 0,
    requestIds: [],
    awayUntilMs: 0,
    withoutKeysUntilMs: 0,
  };
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
