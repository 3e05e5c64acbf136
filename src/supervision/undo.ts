/**
 * How a side effect is undone, in two forms. `NamedUndo` is written to the journal: fault, component, target. `Undo`
 * adds commands and addresses; it stays in memory and is sent to the live watchdog. Healing from a journal takes them
 * from the target file given, and ends or removes only what has the run's mark (faults/undo-by-name.ts).
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { runShellCommand } from "./child.ts";
import { endGroup, type GroupId } from "./processes.ts";
import { pause } from "./waiting.ts";

/** The deployment that was changed. `file` is where its target file was, for messages. */
export type TargetName = { base_url: string; name?: string; file?: string };

/** One control plane's fields before a change, for `PATCH /deployment`. `at`: its index among planes of its kind. */
export type PlaneState = {
  plane: "api" | "keys" | "limiter";
  at: number;
  was: Record<string, number | string>;
};

type OnTarget = { target: TargetName };

export type NamedUndo =
  /** `disables`: the fault disables the proxy, so healing has to enable it. */
  | (OnTarget & { how: "heal-proxy"; proxy: string; disables: boolean })
  /** `fault`: the name under `faults` of the target file, such as `limiter.refused`. */
  | (OnTarget & { how: "command"; fault: string })
  | (OnTarget & { how: "deployment"; planes: readonly PlaneState[] })
  /** A process of the run, with its group. `end_last`: it is ended after the processes that need it. */
  | (GroupId & { how: "end-process"; end_last: boolean })
  /** A folder of the run that holds secrets; it is removed after the processes that write into it have ended. */
  | { how: "remove-folder"; path: string }
  /** Several undos, run in reverse order; one that fails does not stop the others. */
  | { how: "all"; undos: readonly NamedUndo[] }
  | { how: "nothing" };

type Named<How extends NamedUndo["how"]> = Extract<NamedUndo, { how: How }>;

type ProxyUndo = Named<"heal-proxy"> & { api_url: string };
/** Shell commands, run one after the other in the folder of the target file. */
export type CommandUndo = Named<"command"> & { commands: readonly string[]; cwd: string };
export type ChangeUndo = Named<"deployment"> & { planes: readonly (PlaneState & { url: string })[] };

export type Undo =
  | ProxyUndo
  | CommandUndo
  | ChangeUndo
  | Named<"end-process" | "remove-folder" | "nothing">
  /** The lock of a target. If the watchdog does not remove it, the next run does, because the holder is gone. */
  | { how: "remove-lock"; path: string }
  | { how: "all"; undos: readonly Undo[] };

export const KINDS = ["proxy", "fault", "child", "folder", "signal", "key", "session", "fixture"] as const;

export type Effect = { id: string; kind: (typeof KINDS)[number]; name: string; undo: Undo };

export type Notes = {
  write(effect: Effect, phase: "undone" | "about", detail: string): void;
  close(): void;
};

type CallLimits = { signal: AbortSignal; callMs: number };

/** Functions that know proxies and control planes (faults/healing.ts); each returns what it did. */
export type UndoPorts = {
  proxy(undo: ProxyUndo, limits: CallLimits): Promise<string>;
  change(undo: ChangeUndo, limits: CallLimits): Promise<string>;
};

/** `signal` ends the attempt; `callMs` is the deadline of each control call. */
type UndoLimits = CallLimits & {
  ports: UndoPorts;
  /** The environment of heal commands (default: that of this process). */
  env?: NodeJS.ProcessEnv;
  /** A heal command that fails is run again after pauses of this many milliseconds, until the signal fires. */
  againMs?: number;
  graceMs: number;
};

/** Undoes one side effect and returns what it did, in a few words. Throws if the side effect is still there. */
export const runUndo = async (undo: Undo, limits: UndoLimits): Promise<string> => {
  switch (undo.how) {
    case "all": {
      const did = new Set<string>();
      const troubles: string[] = [];
      for (const one of undo.undos.toReversed()) {
        const tried = runUndo(one, limits).then((what) => did.add(what));
        await tried.catch((error: Error) => troubles.push(error.message));
      }
      if (troubles.length > 0) throw new Error(troubles.join("; "));
      return [...did].join(", ");
    }
    case "nothing":
      return "nothing to take back";
    case "end-process":
      return await endGroup(undo, limits.graceMs);
    case "remove-lock":
    case "remove-folder":
      if (!existsSync(undo.path)) return "was gone";
      await rm(undo.path, { recursive: true, force: true, maxRetries: 3 });
      return "removed";
    case "command":
      return await runCommands(undo, limits);
    case "heal-proxy":
      return await limits.ports.proxy(undo, limits);
    case "deployment":
      return await limits.ports.change(undo, limits);
  }
};

const runCommands = async ({ commands, cwd }: CommandUndo, limits: UndoLimits): Promise<string> => {
  const { signal, env, againMs } = limits;
  for (let failure: unknown; ; ) {
    try {
      for (const command of commands) await runShellCommand(command, { what: "heal command", signal, cwd, env });
      return `ran ${commands.length} heal command(s)`;
    } catch (error) {
      // If this try was cut off, the failure of the try before says more.
      failure = signal.aborted ? (failure ?? error) : error;
    }
    if (againMs !== undefined) await pause(againMs, signal);
    if (againMs === undefined || signal.aborted) throw failure;
  }
};

/** `did`: what was done; `null` if it failed for the reason in `trouble`, and the effect stays open. */
export type UndoResult = { kind: string; name: string; did: string | null; trouble: string | null };

const isLast = ({ undo }: Effect): boolean =>
  undo.how === "remove-folder" || undo.how === "remove-lock" || (undo.how === "end-process" && undo.end_last);

/** Undoes faults and load at the same time, then the processes, folders and locks that they need. Never rejects. */
export const undoAll = async (
  effects: readonly Effect[],
  notes: Notes | null,
  limits: UndoLimits,
): Promise<UndoResult[]> => {
  const undoOne = async (effect: Effect): Promise<UndoResult> => {
    const { kind, name, undo } = effect;
    const [did, trouble] = await runUndo(undo, limits).then(
      (what) => [what, null] as const,
      ({ message }: Error) => [null, message] as const,
    );
    try {
      if (did !== null) notes?.write(effect, "undone", did);
      else notes?.write(effect, "about", `not taken back: ${trouble}`);
    } catch {} // a full disk must not keep the other faults in force
    return { kind, name, did, trouble };
  };
  const first = await Promise.all(effects.filter((effect) => !isLast(effect)).map(undoOne));
  return [...first, ...(await Promise.all(effects.filter(isLast).map(undoOne)))];
};
