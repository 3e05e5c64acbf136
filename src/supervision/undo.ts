/**
 * How a side effect is undone, in two forms. `NamedUndo` stands in the journal on disk: which fault, component and target.
 * `Undo` adds what is executed; it stays in memory and goes to the live watchdog. Healing from a journal takes commands and
 * addresses from the target file given, and touches only processes and folders with the run's mark.
 *
 * `undoAll` undoes without the process that did it: the watchdog got what to do through its pipe; `chaos --heal` works it out
 * from names in the journal and the target file (faults/undo-by-name.ts).
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { clean } from "../contract/foreign-text.ts";
import { runShellCommand } from "./bounded-child.ts";
import { endGroup, type GroupId, type ProcessId, signalProcess } from "./processes.ts";
import { pause } from "./waiting.ts";

export const KINDS = ["proxy", "fault", "child", "folder", "signal", "key", "session", "fixture"] as const;

/** The deployment that was changed. `file` is where its target file was, for messages. */
export type TargetName = { base_url: string; name?: string; file?: string };

/** What was set on one control plane before it was changed, as fields for `PATCH /deployment`. */
type PlaneState = {
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
  | (ProcessId & { how: "signal" })
  /** A process of ours, with its group; `end_last`: after those that need it. */
  | (GroupId & { how: "end-process"; end_last: boolean })
  /** A folder of ours that holds secrets, after the processes that write into it. */
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
  | (Named<"signal"> & { signal: "SIGCONT" })
  | Named<"end-process" | "remove-folder" | "nothing">
  /** The lock of a target; without a watchdog the next run removes it, because its process is gone. */
  | { how: "remove-lock"; path: string }
  | { how: "all"; undos: readonly Undo[] };

/** A side effect and its undo, kept in memory only. */
export type Effect = { id: string; kind: (typeof KINDS)[number]; name: string; undo: Undo };

export type Notes = {
  write(effect: Effect, phase: "undone" | "about", detail: string): void;
  close(): void;
};

const NAME = /^[A-Za-z0-9_.-]{1,200}$/;
export const START = /^[\w :]{1,60}$/;
const TEXT_MOST = 2_000;
const MANY = 100;
const DEPTH_MOST = 3;

const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): value is string => typeof value === "string" && NAME.test(value);

/** Returns a text for messages, without control characters. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? clean(value.slice(0, TEXT_MOST)) : undefined;

/** The fields of `PATCH /deployment` that may have to be restored after an operator's change. */
const NUMBERS = new Set(["clock_offset_ms", "global_in_flight", "org_in_flight", "slots", "service_factor"]);
const SESSIONS = new Set<unknown>(["enabled", "disabled", "not_configured"]);

/** Picks the known fields with values of the right kind from what a control plane or a journal says. */
export const stateOfPlane = (value: unknown): Record<string, number | string> => {
  const was: Record<string, number | string> = {};
  for (const [name, said] of Object.entries(fieldsOf(value))) {
    if (NUMBERS.has(name) && typeof said === "number" && Number.isFinite(said)) was[name] = said;
    if (name === "sessions" && SESSIONS.has(said)) was[name] = said as string;
  }
  return was;
};

const planesOf = (value: unknown): PlaneState[] =>
  (Array.isArray(value) ? value.slice(0, MANY) : []).flatMap((one): PlaneState[] => {
    const { plane, at, was } = fieldsOf(one);
    if ((plane !== "api" && plane !== "keys" && plane !== "limiter") || !isNumber(at)) return [];
    return [{ plane, at, was: stateOfPlane(was) }];
  });

/**
 * Reads an undo from a journal: builds it anew from known fields with values of the right kind. Anything else becomes
 * `nothing`.
 */
export const namedUndo = (value: unknown, depth = 0): NamedUndo => {
  const said = fieldsOf(value);
  const { how, proxy, fault, pid, pgid, start, path, undos } = said;
  const of = fieldsOf(said.target);
  const base_url = textOf(of.base_url);
  if (base_url !== undefined) {
    const target: TargetName = { base_url, name: textOf(of.name), file: textOf(of.file) };
    if (how === "heal-proxy" && isName(proxy)) return { how, proxy, disables: said.disables === true, target };
    if (how === "command" && isName(fault)) return { how, fault, target };
    if (how === "deployment") return { how, planes: planesOf(said.planes), target };
  }
  if (isNumber(pid) && pid > 1 && typeof start === "string" && START.test(start)) {
    if (how === "signal") return { how, pid, start };
    if (how === "end-process" && isNumber(pgid)) return { how, pid, start, pgid, end_last: said.end_last === true };
  }
  const isPath = typeof path === "string" && path.length <= TEXT_MOST && !path.includes("\0");
  if (how === "remove-folder" && isPath) return { how, path };
  if (how === "all" && Array.isArray(undos) && depth <= DEPTH_MOST) {
    return { how, undos: undos.slice(0, MANY).map((one) => namedUndo(one, depth + 1)) };
  }
  return { how: "nothing" };
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

/** Undoes one side effect and returns what it did, in a few words. Throws a sentence if the side effect is still there. */
export const runUndo = async (undo: Undo, limits: UndoLimits): Promise<string> => {
  switch (undo.how) {
    case "all": {
      const did: string[] = [];
      const troubles: string[] = [];
      for (const one of undo.undos.toReversed()) {
        const tried = runUndo(one, limits).then((what) => did.push(what));
        await tried.catch((error: Error) => troubles.push(error.message));
      }
      if (troubles.length > 0) throw new Error(troubles.join("; "));
      return did.join(", ");
    }
    case "nothing":
      return "nothing to take back";
    case "signal":
      return signalProcess(undo, undo.signal) ? `sent ${undo.signal}` : "the process is gone";
    case "end-process": {
      const ended = await endGroup(undo, limits.graceMs);
      if (ended === "still there") throw new Error(`process ${undo.pid} is still there after SIGKILL`);
      return ended;
    }
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
  const { signal, env = process.env, againMs } = limits;
  for (;;) {
    try {
      for (const command of commands) await runShellCommand(command, { what: "heal command", signal, cwd, env });
      return `ran ${commands.length} heal command(s)`;
    } catch (error) {
      if (againMs === undefined) throw error;
      await pause(againMs, signal);
      if (signal.aborted) throw error;
    }
  }
};

/** `did`: what was done, or `null` with the `trouble`; the effect then stays open. */
export type UndoResult = { kind: string; name: string; did: string | null; trouble: string | null };

const isLast = ({ undo }: Effect): boolean =>
  undo.how === "remove-folder" || undo.how === "remove-lock" || (undo.how === "end-process" && undo.end_last);

/**
 * Undoes faults and load at the same time, then the proxies and folders that they used. One effect that fails does not
 * make it reject.
 */
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
    } catch {} // a full disk must not keep the other faults in
    return { kind, name, did, trouble };
  };
  const first = await Promise.all(effects.filter((effect) => !isLast(effect)).map(undoOne));
  return [...first, ...(await Promise.all(effects.filter(isLast).map(undoOne)))];
};
