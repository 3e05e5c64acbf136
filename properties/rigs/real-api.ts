/**
 * A whole reference deployment on loopback for properties: API, key service and limiter over real HTTP, each of the API's
 * links through a TCP link that can be broken and healed. Key records are not cached, so that the next call sees a change;
 * another property covers how long they may be cached.
 */

import type { LedgerLine } from "../../src/contract/routes.ts";
import { add } from "../../src/history/statistics/statistics.ts";
import {
  type FaultyLink,
  LINK_FAULTS,
  type LinkFault,
  startFaultyLink,
} from "../../src/platform/links/faulty-link.fixture.ts";
import { HEALTHY, type Parts } from "../../src/platform/parts.ts";
import { type Heard, startPlatform } from "../../src/platform/start-platform.fixture.ts";
import type { RoleOptions } from "../../src/platform/start-role.ts";

export type Link = "keys" | "limiter";
/** `refused`: nothing listens at the other end. */
export type Fault = LinkFault | "refused";
export const FAULTS: readonly Exclude<Fault, "none">[] = ["refused", ...LINK_FAULTS];

type BreakableLinks = {
  urls: Record<Link, string>;
  /** Breaks the link; the fault `none` heals it. */
  setFault(link: Link, fault: string): Promise<void>;
  close(): Promise<void>;
};
export type OpenLinks = (services: Record<Link, string>) => Promise<BreakableLinks>;

const openFaultyLinks: OpenLinks = async (services) => {
  const links: Record<Link, FaultyLink> = {
    keys: await startFaultyLink(services.keys),
    limiter: await startFaultyLink(services.limiter),
  };
  const refused = new Set<Link>();
  return {
    urls: { keys: links.keys.url, limiter: links.limiter.url },
    setFault: async (name, fault) => {
      const link = links[name];
      if (refused.has(name) && fault !== "refused") {
        refused.delete(name);
        await link.listenAgain();
      }
      if (fault === "refused") {
        if (!refused.has(name)) await link.refuse();
        refused.add(name);
        link.setFault("none");
      } else link.setFault(fault as LinkFault);
    },
    close: async () => {
      await Promise.all([links.keys.close(), links.limiter.close()]);
    },
  };
};

export type Request = {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  path: string;
  body?: unknown;
  credential?: string | null;
  origin?: string | null;
  requestId?: string;
};

export type RealApi = Awaited<ReturnType<typeof startRealApi>>;

/** A call that hangs this long throws: longer than any budget, shorter than a test's timeout. */
const HANGS_MS = 10_000;
const SETTLES_MS = 10_000;

/** Caches no key records, so that a change shows at once. */
export const FORGETFUL: Parts = { ...HEALTHY, keyCache: { maxAgeMs: 0, singleFlight: true } };

/** Takes a limiter that does not answer for one that admits. */
export const FAILING_OPEN: Partial<Parts> = {
  limiterLink: (limiter) => ({
    ...limiter,
    take: (take, budgetMs) =>
      limiter.take(take, budgetMs).catch(() => ({ verdict: "taken" as const, used: 0, window: "2026-05" })),
  }),
};

type Surroundings = { openLinks?: OpenLinks; hangsMs?: number };

export const startRealApi = async (
  options: RoleOptions = {},
  parts: Parts = FORGETFUL,
  { openLinks = openFaultyLinks, hangsMs = HANGS_MS }: Surroundings = {},
) => {
  let links: BreakableLinks | undefined;
  let log: string[] = [];
  const platform = await startPlatform(
    {
      logLevel: "debug",
      logTo: { write: (line) => void log.push(line) },
      rateLimit: null,
      stopDeadlineMs: 1_000,
      inference: { serviceMs: 0, tokens: 1 },
      links: async (services) => {
        links = await openLinks(services);
        return links.urls;
      },
      ...options,
    },
    parts,
    { connections: 64, headersTimeout: hangsMs, bodyTimeout: hangsMs },
  );

  /** The control plane; throws unless it answers 2xx. */
  const operate = async (method: Request["method"], path: string, body?: unknown): Promise<Heard> => {
    const heard = await platform.ask(method, path, body);
    if (heard.status >= 300) throw new Error(`${method} ${path}: ${heard.status} ${heard.text}`);
    return heard;
  };

  return {
    call: ({ method, path, body, credential, origin, requestId }: Request): Promise<Heard> =>
      platform.call({
        method,
        path,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        credential: credential || undefined,
        origin: origin || undefined,
        ...(requestId === undefined ? {} : { headers: { "x-request-id": requestId } }),
      }),
    operate,
    setFault: async (link: Link, fault: string): Promise<void> => links?.setFault(link, fault),
    /** Resolves when no call is in flight and every refund is confirmed; throws after 10 s. */
    settled: async (): Promise<void> => {
      const untilMs = performance.now() + SETTLES_MS;
      for (;;) {
        const { json } = await operate("GET", "/gauges");
        const { in_flight, unsettled } = json as { in_flight: number; unsettled: number };
        if (in_flight === 0 && unsettled === 0) return;
        if (performance.now() > untilMs) throw new Error(`still ${in_flight} in flight, ${unsettled} unsettled`);
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    },
    /** The sum of each charge in the ledger by its id, without those that were taken back. */
    netCharges: async (run: string): Promise<number[]> => {
      const net = new Map<string, number>();
      const { text } = await operate("GET", `/ledger?run=${run}`);
      for (const line of text.split("\n").filter((line) => line !== "")) {
        const { charge_id, kind, amount } = JSON.parse(line) as LedgerLine;
        add(net, charge_id, kind === "charge" ? amount : -amount);
      }
      return [...net.values()].filter((sum) => sum !== 0);
    },
    /** Returns what the API has logged since the last call, at level `debug`. */
    takeLog: (): string => {
      const taken = log.join("");
      log = [];
      return taken;
    },
    close: async (): Promise<void> => {
      await platform.close();
      await links?.close();
    },
  };
};
