/** Holds keys, tokens and origins of roles and tenants, and sessions, which are minted on first use and renewed. */
import type { Secrets } from "../target/secrets.ts";
import { credentialFinder, readStated } from "../target/stated-credentials.ts";
import type { Target } from "../target/target.ts";
import type { HeldSession } from "../workload/handover.ts";
import { credentialName } from "../workload/request.ts";
import type { CredentialRef, SessionWanted } from "../workload/step.ts";
import { renewAtMs } from "../workload/timeouts.ts";

type Minted = { token: string; expiresInS: number };

const FORGET_EVERY_MS = 10_000;
const NEVER = Number.POSITIVE_INFINITY;

export const createCredentialBook = (
  target: Target,
  secrets: Secrets,
  mint: (wanted: SessionWanted) => Promise<Minted>,
) => {
  const { find, originOf } = credentialFinder(target);
  const held = new Map<string, HeldSession>();
  const minting = new Map<string, Promise<string>>();
  const forgottenAtMs = new Map<string, number>();
  const mintSession = (wanted: SessionWanted, name: string): Promise<string> => {
    const started =
      minting.get(name) ??
      mint(wanted)
        .then(({ token, expiresInS }) => {
          const nowMs = Date.now();
          const endsAtMs = nowMs + expiresInS * 1000;
          held.set(name, { token, renewAtMs: renewAtMs(nowMs, expiresInS * 1000), endsAtMs });
          return token;
        })
        .finally(() => minting.delete(name));
    minting.set(name, started);
    return started;
  };

  /** Names are cached, because steps share few refs. Sessions are not: each step has a new ref for its session. */
  const names = new WeakMap<CredentialRef, string>();
  const nameOf = (ref: CredentialRef): string => {
    const name = names.get(ref) ?? credentialName(ref);
    if (ref.as !== "session") names.set(ref, name);
    return name;
  };

  /** The value, if it is held and has not expired. */
  const peek = (ref: CredentialRef): string | undefined => {
    const name = nameOf(ref);
    const known = held.get(name);
    const nowMs = Date.now();
    if (known === undefined || known.endsAtMs <= nowMs) return undefined;
    // Renewed in the background; a failure is retried with the next call.
    if (known.renewAtMs <= nowMs && ref.as === "session") mintSession(ref, name).catch(() => undefined);
    return known.token;
  };

  /** The value, read or minted; `null` for a credential that belongs to no role or tenant. */
  const fetch = async (ref: CredentialRef): Promise<string | null> => {
    const known = peek(ref);
    if (known !== undefined) return known;
    if (ref.as === "session") return mintSession(ref, credentialName(ref));
    if (!("of" in ref)) return null;
    const token = await readStated(find(ref.of, ref.as), secrets);
    // An administrator's token is not kept here, because it expires; `secrets` keeps it for its life.
    if (ref.as !== "admin") held.set(credentialName(ref), { token, renewAtMs: NEVER, endsAtMs: NEVER });
    return token;
  };

  return {
    ...{ peek, fetch, originOf },
    sessionOf: (ref: CredentialRef): HeldSession | undefined => held.get(credentialName(ref)),
    /** A valid credential got 401: forgets its value, at most once in ten seconds. */
    refused: (ref: CredentialRef): void => {
      if (!("of" in ref)) return;
      const name = credentialName(ref);
      const nowMs = Date.now();
      if (nowMs - (forgottenAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < FORGET_EVERY_MS) return;
      forgottenAtMs.set(name, nowMs);
      held.delete(name);
      if (ref.as !== "session") secrets.forget(find(ref.of, ref.as).ref);
    },
    /** Mints sessions before the load begins. */
    prepare: async (wanted: readonly SessionWanted[]): Promise<void> => {
      for (const { of, product } of wanted) await fetch({ as: "session", of, product });
    },
  };
};
