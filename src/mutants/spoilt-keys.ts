/** Mutants of the key service, of its answers and of what a session says. */
import type { KeySnapshot, Tier } from "../core/records.ts";
import { members, type Spoilt } from "./mutant.ts";

export const SPOILT_KEYS: readonly Spoilt[] = [
  // An organization's tier kept from when it was first seen.
  {
    name: "remembers-the-old-tier",
    harm: "a downgrade never arrives, so nobody has a reason to pay",
    kills: ["admission-is-stored-and-tier"],
    stage: "record-changes",
    spoil: (healthy) => ({
      keyLink: (keys) => {
        const link = healthy.keyLink(keys);
        const seen = new Map<string, Tier | null>();
        const remembered = (found: KeySnapshot | null): KeySnapshot | null => {
          if (found === null) return null;
          const tier = seen.get(found.org.id) ?? found.org.tier;
          seen.set(found.org.id, tier);
          return { ...found, org: { ...found.org, tier } };
        };
        return {
          bySecretHash: async (hash, budgetMs) => remembered(await link.bySecretHash(hash, budgetMs)),
          byId: async (id, budgetMs) => remembered(await link.byId(id, budgetMs)),
        };
      },
    }),
  },
  // A cache without an age.
  {
    name: "trusts-a-stale-key",
    harm: "a stolen key that was revoked goes on working until the next deploy",
    kills: ["revoked-stays-out"],
    stage: "record-changes",
    spoil: members("keyCache", () => ({ maxAgeMs: 3_600_000 })),
  },
  // A lifetime of another product's sessions.
  {
    name: "mints-for-an-hour",
    harm: "a stolen session token cannot be taken back and works twice as long as was promised",
    kills: ["session-lifetime-is-bounded"],
    stage: "answers",
    spoil: (healthy) => ({
      sessionClaims: (mint) => healthy.sessionClaims(mint, 3_600),
    }),
  },
  // A session minted for the first product in the list.
  {
    name: "echoes-another-product",
    harm: "a page that asked for tiles gets a chat session, and is refused later for a reason nobody sees",
    kills: ["session-lifetime-is-bounded"],
    stage: "answers",
    spoil: (healthy) => ({
      sessionClaims: (mint, lifetimeS) => healthy.sessionClaims({ ...mint, product: "chat" }, lifetimeS),
    }),
  },
  // A log line for support, with everything in it.
  {
    name: "prints-the-token",
    harm: "logs travel further than anybody means them to, and each line is a credential",
    kills: ["secrets-stay-secret"],
    stage: "answers",
    spoil: (healthy) => ({
      requestLog: (entry) => ({ ...healthy.requestLog(entry), credential: entry.credential }),
    }),
  },
  // No answer taken for `unknown key`.
  {
    name: "answers-401-when-keys-are-down",
    harm: "customers replace keys that are good, and every replacement fails too",
    kills: ["fails-closed"],
    stage: "keys-refused",
    spoil: (healthy) => ({
      keyLink: (keys) => {
        const link = healthy.keyLink(keys);
        return {
          bySecretHash: (hash, budgetMs) => link.bySecretHash(hash, budgetMs).catch(() => null),
          byId: (id, budgetMs) => link.byId(id, budgetMs).catch(() => null),
        };
      },
    }),
  },
  // The last known record used for as long as the key service is away.
  {
    name: "serves-stale-when-keys-are-down",
    harm: "who can keep the key service busy can use a revoked key",
    kills: ["fails-closed"],
    stage: "keys-refused",
    spoil: (healthy) => ({
      keyLink: (keys) => {
        const link = healthy.keyLink(keys);
        const last = new Map<string, KeySnapshot>();
        const orLast = async (name: string, asked: Promise<KeySnapshot | null>): Promise<KeySnapshot | null> => {
          try {
            const found = await asked;
            if (found !== null) last.set(name, found);
            return found;
          } catch (error) {
            const known = last.get(name);
            if (known === undefined) throw error;
            return known;
          }
        };
        return {
          bySecretHash: (hash, budgetMs) => orLast(hash, link.bySecretHash(hash, budgetMs)),
          byId: (id, budgetMs) => orLast(id, link.byId(id, budgetMs)),
        };
      },
    }),
  },
  // Each call asks by itself, however many ask the same.
  {
    name: "stampedes-the-key-service",
    harm: "the key service comes back from an outage and is knocked over by everybody at once",
    kills: ["recovers"],
    stage: "keys-refused",
    spoil: members("keyCache", () => ({ singleFlight: false })),
  },
  // A key looked up by its id alone.
  {
    name: "foreign-org-key-visible",
    harm: "any admin reads any customer's keys, by asking to change nothing in them",
    kills: ["verify/key-of-another-organization"],
    stage: "verify",
    spoil: members("keyDecisions", (healthy) => ({
      decideUpdate: (org, key, request) =>
        key !== null && key.org_id !== org.id ? key : healthy.decideUpdate(org, key, request),
    })),
  },
  // The acknowledgement stored and not asked for.
  {
    name: "vendor-without-acknowledgement",
    harm: "keys reach a vendor's data for which nobody has signed",
    kills: ["verify/keys-vendor-needs-acknowledgement"],
    stage: "verify",
    spoil: members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) =>
        healthy.decideCreation(org, liveKeys, { ...request, acknowledge_vendor: true }),
    })),
  },
  // `>` where `>=` was meant.
  {
    name: "key-limit-off-by-one",
    harm: "each organization has one key more than its plan",
    kills: ["verify/keys-limit-reached"],
    stage: "verify",
    spoil: members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) => healthy.decideCreation(org, liveKeys - 1, request),
    })),
  },
  // The tier looked at when a key is made, and not when it is changed.
  {
    name: "widens-beyond-the-tier",
    harm: "a Free organization makes a small key and then asks for everything",
    kills: ["verify/keys-widening-beyond-tier"],
    stage: "verify",
    spoil: members("keyDecisions", (healthy) => ({
      decideUpdate: (org, key, request) =>
        healthy.decideUpdate({ ...org, tier: org.tier === null ? null : "Pro" }, key, request),
    })),
  },
  // The plan's kinds of keys looked at only in the console's form.
  {
    name: "gives-server-keys-to-free",
    harm: "a Free organization makes a server key by calling the API itself",
    kills: ["verify/keys-free-plan-publishable-only"],
    stage: "verify",
    spoil: members("keyDecisions", (healthy) => ({
      decideCreation: (org, liveKeys, request) =>
        healthy.decideCreation(
          request.kind === "server" && org.tier === "Free" ? { ...org, tier: "Pro" } : org,
          liveKeys,
          request,
        ),
    })),
  },
];
