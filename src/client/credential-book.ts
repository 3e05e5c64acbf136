/** Keys and tokens of roles and tenants, origins, and sessions, which are minted on first use and renewed. */
import { inItsPlace, type KeyWanted, type Secrets, wantedUnder } from "../target/secrets.ts";
import type { AdminCredential, KeyCredential, Target } from "../target/target.ts";
import type { CallerName } from "../workload/callers/target-view.ts";
import type { HeldSession } from "../workload/handover.ts";
import { credentialName } from "../workload/request.ts";
import type { CredentialRef, SessionWanted } from "../workload/step.ts";
import { renewAtMs } from "../workload/timeouts.ts";

export class CredentialMissingError extends Error {
  constructor(of: string, expected: string) {
    super(`${of} is needed by the scenario, but the target file has no ${expected} for it`);
    this.name = "CredentialMissingError";
  }
}

type Minted = { token: string; expiresInS: number };

const FORGET_EVERY_MS = 10_000;

type Found = { ref: string; what: string; wanted: KeyWanted };
type Owned = "publishable" | "server" | "admin";

const find = (target: Target, of: CallerName, as: Owned): Found => {
  const name = of.slice(of.indexOf(":") + 1);
  if (of.startsWith("tenant:")) {
    const tenant = target.tenants?.find(({ org }) => org === name);
    const key = as === "admin" ? undefined : tenant?.[as]?.key;
    if (key === undefined) throw new CredentialMissingError(of, `${as} key`);
    return { ref: key, what: `tenants (${name}).${as}.key`, wanted: as === "server" ? "server" : "publishable" };
  }
  const credential = target.credentials?.[name as keyof NonNullable<Target["credentials"]>];
  const ref =
    as === "admin"
      ? (credential as AdminCredential | undefined)?.token
      : (credential as KeyCredential | undefined)?.key;
  if (ref === undefined) throw new CredentialMissingError(of, as === "admin" ? "token" : "key");
  return { ref, what: `credentials.${name}`, wanted: wantedUnder(name) };
};

/** The key or token of a role or tenant. Throws `SecretError` if it is of another kind than its place. */
export const readCredential = async (target: Target, secrets: Secrets, of: CallerName, as: Owned): Promise<string> => {
  const { ref, what, wanted } = find(target, of, as);
  return inItsPlace(await secrets.read(ref, what), wanted, what);
};

export const createCredentialBook = (
  target: Target,
  secrets: Secrets,
  mint: (wanted: SessionWanted) => Promise<Minted>,
) => {
  const keys = new Map<string, string>();
  const sessions = new Map<string, HeldSession>();
  const minting = new Map<string, Promise<string>>();
  const forgottenAtMs = new Map<string, number>();
  const mintSession = (wanted: SessionWanted, name: string): Promise<string> => {
    const started =
      minting.get(name) ??
      mint(wanted)
        .then(({ token, expiresInS }) => {
          const nowMs = Date.now();
          const endsAtMs = nowMs + expiresInS * 1000;
          sessions.set(name, { token, renewAtMs: renewAtMs(nowMs, expiresInS * 1000), endsAtMs });
          return token;
        })
        .finally(() => minting.delete(name));
    minting.set(name, started);
    return started;
  };

  /** Cached, because steps share few refs; but each step has a new one for its session. */
  const names = new WeakMap<CredentialRef, string>();
  const nameOf = (ref: CredentialRef): string => {
    const name = names.get(ref) ?? credentialName(ref);
    if (ref.as !== "session") names.set(ref, name);
    return name;
  };

  /** The value, if it is known already. */
  const peek = (ref: CredentialRef): string | undefined => {
    const name = nameOf(ref);
    if (ref.as !== "session") return keys.get(name);
    const session = sessions.get(name);
    const nowMs = Date.now();
    if (session === undefined || session.endsAtMs <= nowMs) return undefined;
    // Renewed in the background; a failure is retried with the next call.
    if (session.renewAtMs <= nowMs) mintSession(ref, name).catch(() => undefined);
    return session.token;
  };

  /** The value, read or minted; `null` for a credential of no role or tenant. */
  const fetch = async (ref: CredentialRef): Promise<string | null> => {
    const known = peek(ref);
    if (known !== undefined) return known;
    if (ref.as === "session") return mintSession(ref, credentialName(ref));
    if (!("of" in ref)) return null;
    const value = await readCredential(target, secrets, ref.of, ref.as);
    // Not cached here, because an administrator's token expires; `secrets` caches it for its life.
    if (ref.as !== "admin") keys.set(credentialName(ref), value);
    return value;
  };

  return {
    peek,
    fetch,
    sessionOf: (ref: CredentialRef): HeldSession | undefined => sessions.get(credentialName(ref)),
    originOf: (of: CallerName): string | undefined => {
      const name = of.slice(of.indexOf(":") + 1);
      if (of.startsWith("tenant:")) return target.tenants?.find(({ org }) => org === name)?.publishable?.origin;
      return (target.credentials?.[name as "publishable"] as KeyCredential | undefined)?.origin;
    },
    /** A valid credential got 401: forgets its value, at most once in ten seconds. */
    refused: (ref: CredentialRef): void => {
      if (!("of" in ref)) return;
      const name = credentialName(ref);
      const nowMs = Date.now();
      if (nowMs - (forgottenAtMs.get(name) ?? Number.NEGATIVE_INFINITY) < FORGET_EVERY_MS) return;
      forgottenAtMs.set(name, nowMs);
      sessions.delete(name);
      if (ref.as === "session") return;
      keys.delete(name);
      secrets.forget(find(target, ref.of, ref.as).ref);
    },
    prepare: async (refs: readonly CredentialRef[], wanted: readonly SessionWanted[]): Promise<void> => {
      for (const ref of refs) await fetch(ref);
      for (const { of, product } of wanted) await fetch({ as: "session", of, product });
    },
  };
};
