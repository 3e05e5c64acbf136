/**
 * What is checked before anything is sent: beyond loopback `--i-own` has to name the host, and the target file has to
 * permit and budget the run; and a target has one run at a time.
 */
import { lookup } from "node:dns/promises";
import { tmpdir } from "node:os";
import { AddressError } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import { takeLock } from "../supervision/process-lock.ts";
import type { Target } from "./target.ts";
import { addressOfField, targetUrl, urlsOf } from "./target-urls.ts";

type Resolve = (host: string) => Promise<readonly string[]>;

const bySystem: Resolve = async (host) => (await lookup(host, { all: true })).map(({ address }) => address);

/** A non-loopback address of the name, else `null`. A resolver may even map `localhost` elsewhere (RFC 6761). */
const whereItLeads = async (host: string, resolve: Resolve): Promise<string | null> => {
  if (!/[a-z]/.test(host.replace(/^\[.*\]$/, ""))) return null;
  // A name without an address reaches no host.
  const addresses = await resolve(host).catch(() => []);
  return addresses.find((address) => !isLoopbackHost(address)) ?? null;
};

export type Intent = { load: boolean; faults: boolean; requests: number };

/** Reasons to refuse; empty if a run may send. `owned`: canonical hosts. `resolve` replaces the system's resolver. */
export const guardTarget = async (target: Target, owned: readonly string[], intent: Intent, resolve = bySystem) => {
  const reasons: string[] = [];
  const fieldOf = new Map<string, string>();
  for (const { field, url } of urlsOf(target)) {
    try {
      const { host } = addressOfField(field, url);
      fieldOf.set(host, field);
      if (!isLoopbackHost(host) && !owned.includes(host)) {
        reasons.push(`${field} is on ${host}, which is not loopback: say --i-own ${host} if it is yours`);
      }
    } catch (error) {
      if (!(error instanceof AddressError)) throw error;
      reasons.push(`${field}: ${error.message}`);
    }
  }
  const foreign = [...fieldOf.keys()].filter((host) => !isLoopbackHost(host));
  for (const [host, field] of fieldOf) {
    const elsewhere = foreign.includes(host) ? null : await whereItLeads(host, resolve);
    const where = `${field} is on ${host}, which resolves to ${elsewhere} here and not to loopback`;
    if (elsewhere !== null) reasons.push(`${where}: correct the resolver or /etc/hosts, or write 127.0.0.1`);
  }
  if (foreign.length === 0) return reasons;
  const most = target.budget?.requests;
  if (most === undefined) {
    reasons.push("the target file has no budget.requests: say how many requests a run may send there");
  } else if (intent.requests > most) {
    const sent = `${intent.requests} requests would be sent and budget.requests allows ${most}`;
    reasons.push(`${sent}: raise it or ask for less`);
  }
  if (intent.load && target.permits?.load_max_rps === undefined) {
    reasons.push("the target file has no permits.load_max_rps: say how many calls a second it may bear");
  }
  if (intent.faults && target.permits?.chaos !== true) {
    reasons.push("faults would be injected and permits.chaos is not true in the target file");
  }
  return reasons;
};

/** Reports a mistake of the user, which exits with code 2. */
export class TargetBusyError extends Error {
  override name = "TargetBusyError";
}

/** Locks a target, because two runs would heal each other's faults. Throws `TargetBusyError` if a run holds it. */
export const lockTarget = (baseUrl: string, folder: string = tmpdir()) => {
  const url = targetUrl(baseUrl);
  const { lock, rival } = takeLock(folder, url);
  if (lock !== null) return lock;
  const { pid, path } = rival;
  throw new TargetBusyError(
    `another run (process ${pid}) works on ${url} now; wait for it, or stop it with \`kill ${pid}\`. One run per target at a time (lock file ${path}).`,
  );
};
