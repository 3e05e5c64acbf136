/**
 * The safety guard (interface.md section 1): nothing is sent to a host that is not loopback unless `--i-own` names it and
 * the target file permits and budgets it. Every URL of the file is looked at, because load and faults reach all of them.
 */
import { isLoopbackHost } from "../contract/loopback.ts";
import type { Target } from "./target.ts";

type GuardVerdict = { ok: true } | { ok: false; reasons: string[] };

const urlsOf = (target: Target): { name: string; url: string }[] => {
  const found: { name: string; url: string | null | undefined }[] = [
    { name: "base_url", url: target.base_url },
    { name: "key_management_url", url: target.key_management_url },
    { name: "tile_url", url: target.tile_url?.replace(/[{}]/g, "") },
    { name: "control.keys", url: target.control?.keys },
    { name: "control.limiter", url: target.control?.limiter },
    ...(target.control?.api ?? []).map((url, i) => ({ name: `control.api[${i}]`, url })),
    { name: "toxiproxy.api_url", url: target.toxiproxy?.api_url },
    { name: "watchdog.url", url: target.watchdog?.url },
    { name: "observers.prometheus.url", url: target.observers?.prometheus?.url },
    { name: "transport.proxy", url: target.transport?.proxy },
  ];
  return found.filter((entry): entry is { name: string; url: string } => typeof entry.url === "string");
};

/** What a command is about to do to the target. */
export type Intent = { load: boolean; faults: boolean; requests: number };

export const guardTarget = (target: Target, owned: readonly string[], intent: Intent): GuardVerdict => {
  const reasons: string[] = [];
  const foreign = new Set<string>();
  for (const { name, url } of urlsOf(target)) {
    let parsed: URL;
    try {
      parsed = new URL(url);
    } catch {
      reasons.push(`${name} is "${url}", which is no URL`);
      continue;
    }
    if (isLoopbackHost(parsed.hostname)) continue;
    foreign.add(parsed.hostname);
    if (!owned.includes(parsed.hostname)) {
      reasons.push(
        `${name} is on ${parsed.hostname}, which is not loopback: say --i-own ${parsed.hostname} if it is yours`,
      );
    }
  }
  if (foreign.size > 0) {
    if (target.budget?.requests === undefined) {
      reasons.push("the target file has no budget.requests: say how many requests a run may send there");
    } else if (intent.requests > target.budget.requests) {
      reasons.push(
        `${intent.requests} requests would be sent and budget.requests allows ${target.budget.requests}: raise it or ask for less`,
      );
    }
    if (intent.load && target.permits?.load_max_rps === undefined) {
      reasons.push("the target file has no permits.load_max_rps: say how many calls a second it may bear");
    }
    if (intent.faults && target.permits?.chaos !== true) {
      reasons.push("faults would be injected and permits.chaos is not true in the target file");
    }
  }
  return reasons.length === 0 ? { ok: true } : { ok: false, reasons };
};
