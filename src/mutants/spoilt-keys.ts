/** Mutants of the key service, of look-ups of key records and of what a session contains. */
import type { KeySnapshot, Tier } from "../core/call.ts";
import { type KeyLookup, nameOfLookup } from "../platform/ports.ts";
import { members, type Spoil, spoilt } from "./mutant.ts";

type Find = KeyLookup["find"];

/** Spoils the API's look-ups of key records. `spoil` is called once for each link, so each has its own state. */
const looking =
  (spoil: () => (find: Find) => Find): Spoil =>
  (healthy) => ({
    keyLink: (keys) => {
      const link = healthy.keyLink(keys);
      return { find: spoil()((lookup, budgetMs) => link.find(lookup, budgetMs)) };
    },
  });

export const SPOILT_KEYS = spoilt(
  // biome-ignore format: a row is a line
  [
    ["remembers-the-old-tier", "record-changes", ["admission-is-stored-and-tier"], "a downgrade never arrives, so nobody has a reason to pay"],
    ["trusts-a-stale-key", "record-changes", ["revoked-stays-out"], "a stolen key that was revoked goes on working until the next deploy"],
    ["mints-for-an-hour", "answers", ["session-lifetime-is-bounded"], "a stolen session token cannot be taken back and works twice as long as was promised"],
    ["echoes-another-product", "answers", ["session-lifetime-is-bounded"], "a page that asked for tiles gets a chat session, and is refused later for a reason nobody sees"],
    ["prints-the-token", "answers", ["secrets-stay-secret"], "logs travel further than anybody means them to, and each line is a credential"],
    ["answers-401-when-keys-are-down", "keys-refused", ["fails-closed"], "customers replace keys that are good, and every replacement fails too"],
    ["serves-stale-when-keys-are-down", "keys-refused", ["fails-closed"], "whoever can keep the key service busy can use a revoked key"],
    ["stampedes-the-key-service", "keys-refused", ["recovers"], "the key service comes back from an outage and is knocked over by everybody at once"],
    ["foreign-org-key-visible", "verify", ["verify/key-of-another-organization"], "any admin reads any customer's keys, by asking to change nothing in them"],
    ["vendor-without-acknowledgement", "verify", ["verify/keys-vendor-needs-acknowledgement"], "keys reach a vendor's data for which nobody has signed"],
    ["key-limit-off-by-one", "verify", ["verify/keys-limit-reached"], "each organization has one key more than its plan"],
    ["widens-beyond-the-tier", "verify", ["verify/keys-widening-beyond-tier"], "a Free organization makes a small key and then asks for everything"],
    ["gives-server-keys-to-free", "verify", ["verify/keys-free-plan-publishable-only"], "a Free organization makes a server key by calling the API itself"],
  ],
  {
    "remembers-the-old-tier": looking(() => {
      const seen = new Map<string, Tier | null>();
      return (find) => async (lookup, budgetMs) => {
        const found = await find(lookup, budgetMs);
        if (found === null) return null;
        const tier = seen.get(found.org.id) ?? found.org.tier;
        seen.set(found.org.id, tier);
        return { ...found, org: { ...found.org, tier } };
      };
    }),
    "trusts-a-stale-key": members("keyCache", () => ({ maxAgeMs: 3_600_000 })),
    "mints-for-an-hour": (healthy) => ({ sessionClaims: (mint) => healthy.sessionClaims(mint, 3_600) }),
    "echoes-another-product": (healthy) => ({
      sessionClaims: (mint, lifetimeS) => healthy.sessionClaims({ ...mint, product: "chat" }, lifetimeS),
    }),
    // A log line for support contains everything.
    "prints-the-token": (healthy) => ({
      requestLog: (entry) => ({ ...healthy.requestLog(entry), credential: entry.credential }),
    }),
    "answers-401-when-keys-are-down": looking(
      () => (find) => (lookup, budgetMs) => find(lookup, budgetMs).catch(() => null),
    ),
    "serves-stale-when-keys-are-down": looking(() => {
      const last = new Map<string, KeySnapshot>();
      return (find) => async (lookup, budgetMs) => {
        try {
          const found = await find(lookup, budgetMs);
          if (found !== null) last.set(nameOfLookup(lookup), found);
          return found;
        } catch (error) {
          const known = last.get(nameOfLookup(lookup));
          if (known === undefined) throw error;
          return known;
        }
      };
    }),
    "stampedes-the-key-service": members("keyCache", () => ({ singleFlight: false })),
    "foreign-org-key-visible": members("keyDecisions", (healthy) => ({
      decideUpdate: (org, key, request) =>
        key !== null && key.org_id !== org.id ? key : healthy.decideUpdate(org, key, request),
    })),
    "vendor-without-acknowledgement": members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) =>
        healthy.decideCreation(org, liveKeys, { ...request, acknowledge_vendor: true }),
    })),
    // `>` is used where `>=` was meant.
    "key-limit-off-by-one": members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) => healthy.decideCreation(org, liveKeys - 1, request),
    })),
    "widens-beyond-the-tier": members("keyDecisions", (healthy) => ({
      decideUpdate: (org, key, request) =>
        healthy.decideUpdate({ ...org, tier: org.tier === null ? null : "Pro" }, key, request),
    })),
    // Only the console's form checks which kinds of key a plan allows.
    "gives-server-keys-to-free": members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) =>
        healthy.decideCreation(
          request.kind === "server" && org.tier === "Free" ? { ...org, tier: "Pro" } : org,
          liveKeys,
          request,
        ),
    })),
  },
);
