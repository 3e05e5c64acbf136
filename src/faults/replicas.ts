/**
 * Sets the number of replicas of a deployment: by the commands of `scale`, or by processes of the reference platform behind
 * its load balancer. The number that was there is set again at the end, after a stop and after kill -9.
 */
import * as deployments from "../deployments/deployment.ts";
import type { Undo } from "../supervision/journal.ts";
import { waitUntil } from "../supervision/waiting.ts";
import { forReplicas, type Target } from "../target/target.ts";
import { targetName } from "../target/target-file.ts";
import { commandRunner } from "./injectors/proxies-and-commands.ts";

/** `readyMs`: new replicas may wait for a node or an image. `stillReadyMs`: one failure of the command proves nothing. */
const TIMES = { setMs: 120_000, readyMs: 300_000, stillReadyMs: 10_000, pollMs: 1_000 };

export type Replicas = {
  /** Resolves to the deployment with so many replicas, when they serve. Throws if they do not. */
  set(count: number): Promise<deployments.Deployment>;
  /** Says why the deployment does not have this number of replicas now; `null` if it has. */
  whyNot(count: number): Promise<string | null>;
  /** Sets the number again that was there, and returns a sentence about it. Throws if that failed; the end of the run tries again. */
  restore(): Promise<string>;
};

/** Says why the number of replicas of a target must not be changed; empty if it may be. */
export const scaleRefusals = (target: Target): string[] => {
  const byCommands = { ...target, toxiproxy: undefined, faults: { scale: { inject: [], heal: [] } } };
  const chaos = "the number of replicas would be changed and permits.chaos is not true in the target file";
  return [target.permits?.chaos === true ? [] : chaos, deployments.remoteProxy(byCommands) ?? []].flat();
};

export const replicasByCommands = (
  { supervisor, events, signal }: deployments.RunContext,
  { remoteWatch, ...deployment }: deployments.Deployment,
  scale: NonNullable<Target["scale"]>,
  times = TIMES,
): Replicas => {
  const { target, folder: cwd, file } = deployment;
  const commands = commandRunner({ cwd, onSpawn: (pid) => supervisor.adopt("a command of scale", pid) });
  const run = (which: keyof typeof scale, count: number, until: AbortSignal): Promise<void> =>
    commands(forReplicas([scale[which]].flat(), count), `command of scale.${which}`, until);
  const whyNotWithin = async (count: number, forMs: number): Promise<string | null> => {
    const isReady = (until: AbortSignal): Promise<boolean> => run("ready", count, until).then(() => true);
    const { met, lastError } = await waitUntil(isReady, { forMs, pollMs: times.pollMs, signal });
    const why = `scale.ready did not find ${count} replicas within ${forMs / 1000} s (${lastError ?? "it did not end"})`;
    return met ? null : why;
  };
  const before = target.limits?.replicas ?? 0;
  // Without a number that can be set again nothing is undone.
  const held = Number.isInteger(before) && before > 0 ? { fault: "scale", replicas: before } : null;
  const undone = { commands: forReplicas(scale.set, before), cwd, target: targetName(target, file) };
  const undo: Undo = held === null ? { how: "nothing" } : { how: "command", ...held, ...undone };
  const takeBack = async (): Promise<string> => {
    if (held === null) return "the number before is not known";
    await run("set", before, AbortSignal.timeout(times.setMs));
    await remoteWatch?.release(held);
    return `set ${before} replicas again`;
  };
  let now: { count: number; effect: ReturnType<typeof supervisor.begin> } | null = null;
  return {
    set: async (count) => {
      if (now === null && held !== null) {
        // A wrong number would be set at the end, on a deployment that never had it.
        const why = await whyNotWithin(before, times.stillReadyMs);
        if (why !== null) throw new Error(`limits.replicas states ${before}, and ${why}; nothing was changed`);
        await remoteWatch?.hold(held);
      }
      const about = { kind: "fault", name: `scale to ${count}`, undo } as const;
      const effect = supervisor.begin(about, "set the number of replicas again", takeBack);
      // The entry before is closed after the next one was written, so that one of them is open all the time.
      now?.effect.over();
      now = { count, effect };
      events.step(`capacity: setting the number of replicas to ${count}, then waiting until they are ready`);
      await run("set", count, AbortSignal.any([signal, AbortSignal.timeout(times.setMs)]));
      effect.done();
      const why = await whyNotWithin(count, times.readyMs);
      if (why !== null) throw new Error(why);
      // The control planes of the target file are those of the replicas that were there.
      const control = { ...target.control, api: undefined };
      return { ...deployment, target: { ...target, control, limits: { ...target.limits, replicas: count } } };
    },
    whyNot: async (count) => remoteWatch?.lost() ?? (await whyNotWithin(count, times.stillReadyMs)),
    restore: async () => {
      if (now === null) return "The number of replicas was not changed.";
      await now.effect.takeBack();
      if (held === null) return `The last number, ${now.count}, stays: limits.replicas does not state the one before.`;
      const why = await whyNotWithin(before, times.readyMs);
      return `The number of replicas is set to ${before} again${why === null ? ", and they are ready" : `; ${why}`}.`;
    },
  };
};

/** Replicas of the embedded deployment, which end with it. */
export const ownReplicas = (deployment: deployments.Deployment & { own: deployments.OwnParts }): Replicas => {
  let atEnd = new AsyncDisposableStack();
  return {
    set: async (count) => {
      await atEnd.disposeAsync();
      atEnd = new AsyncDisposableStack();
      return deployments.withReplicas(deployment, count, atEnd);
    },
    whyNot: async () => null,
    restore: () => atEnd.disposeAsync().then(() => "The replicas of the reference platform have ended."),
  };
};
