/** The steps of an experiment on a proxied link: a fault of the catalogue, put on by toxiproxy and looked at by a probe. */
import type { TargetName, Undo } from "../supervision/undo.ts";
import { pause } from "../supervision/waiting.ts";
import { type LinkProbe, observeLink } from "../tools/link-probe.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import type { ExperimentSteps } from "./experiment.ts";
import { type Fault, TOXIC_PREFIX } from "./fault.ts";
import type { FaultPort } from "./fault-port.ts";
import { heal } from "./healing.ts";

type BrokenLink = {
  toxiproxy: Toxiproxy;
  proxy: string;
  fault: Fault;
  probe: LinkProbe;
  /** False on a toxiproxy that others use too. */
  mayReset: boolean;
  /** For a server of our own (`ToxiproxyServer.restart`). */
  restart?: () => Promise<void>;
  /** Deadline of each control call while healing, in milliseconds. */
  callMs?: number;
};

/** `target`: `null` where the proxy is the run's own and ends with it. */
export const undoOf = ({ toxiproxy, proxy, fault }: BrokenLink, target: TargetName | null): Undo =>
  target === null
    ? { how: "nothing" }
    : { how: "heal-proxy", api_url: toxiproxy.apiUrl, proxy, disables: fault.disables === true, target };

/** A flapping link is up half of the time. */
const LOOKS = 4;
const BETWEEN_LOOKS_MS = 60;

/** Inject, status, effect and heal; steady state and recovery are the target's and come from the caller. */
export const linkSteps = (broken: BrokenLink): FaultPort & Pick<ExperimentSteps, "showsEffect"> => {
  const { toxiproxy, fault, probe, mayReset, restart, callMs } = broken;
  const proxy = toxiproxy.proxy(broken.proxy);
  return {
    inject: async (signal) => {
      const before = await proxy.read({ signal });
      if (!before.enabled || before.toxics.length > 0)
        throw new Error(
          `proxy "${broken.proxy}" is not whole beforehand; \`floodgate chaos --heal\` removes old faults`,
        );
      await fault.put(proxy, { signal });
    },
    status: async (signal) => {
      for (let look = 1; ; look += 1) {
        const { enabled, toxics } = await proxy.read({ signal });
        const hasToxic = toxics.some(({ name }) => name === `${TOXIC_PREFIX}${fault.name}`);
        if (hasToxic || (!enabled && fault.disables === true)) return "in";
        if (look === LOOKS || fault.disables !== true) return "out";
        await pause(BETWEEN_LOOKS_MS, signal);
      }
    },
    showsEffect: async () => fault.shows(await observeLink(probe)),
    heal: async (signal) => {
      const options = callMs === undefined ? { signal } : { signal, callMs };
      let trouble: string | null = null;
      await fault.take(proxy, options).catch((error: unknown) => {
        trouble = (error as Error).message;
      });
      const healing = await heal(toxiproxy, broken.proxy, {
        ...options,
        mayReset,
        mayEnable: mayReset || fault.disables === true,
        ...(restart === undefined ? {} : { restart }),
      });
      if (!healing.healed)
        throw new Error(
          `proxy "${broken.proxy}" is not whole after ${["take", ...healing.did].join(", ")}: ${[trouble, ...healing.trouble].filter((one) => one !== null).join("; ")}`,
        );
      return trouble === null ? healing.did : [`take failed (${trouble})`, ...healing.did];
    },
  };
};
