/**
 * The journal of side effects, and how they are undone. It is NDJSON, each entry flushed to disk before its effect is done. It
 * names effects for `chaos --heal` and contains nothing executable: that is sent only to the keeper, the live watchdog.
 */
import { randomBytes } from "node:crypto";
import { closeSync, existsSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { rm } from "node:fs/promises";
import { clean } from "../contract/foreign-text.ts";
import { parseJson } from "../contract/refusals.ts";
import { runShellCommand } from "./child.ts";
import { openOwnFile } from "./private-file.ts";
import { endGroup, type GroupId, type ProcessId } from "./processes.ts";
import { redactor as ofThisProcess, type Redactor } from "./redaction.ts";
import { fileProblem } from "./user-file.ts";
import { pause, tryEach } from "./waiting.ts";

/** Identifies a run by its process, and by the mark in its children's environment. */
export type RunItself = ProcessId & { mark: string };

/** `about`: is about to be done. `done`: was done. `undone`: was undone, or ended by itself. */
const PHASES = ["about", "done", "undone"] as const;

export type JournalEntry = Pick<Effect, "id" | "kind" | "name"> & {
  at: string;
  phase: (typeof PHASES)[number];
  /** Present on `about`, and again on `done` if more is known by then (a child's process id). */
  undo?: NamedUndo;
  detail?: string;
  run?: RunItself;
  by?: "watchdog" | "heal";
};

/** Receives every side effect before it is done, and its id when it is over. Throws if it cannot receive. */
type Keeper = { keep(effect: Effect): void; forget(id: string): void };

type Written = Omit<JournalEntry, "at" | "undo"> & { undo?: Undo };

const append = (descriptor: number, { undo, ...entry }: Written, redactor: Redactor = ofThisProcess): void => {
  const named = undo && { undo: namedUndo(undo) };
  const masked = redactor.redactValue({ at: new Date().toISOString(), ...entry, ...named });
  writeSync(descriptor, `${JSON.stringify(masked)}\n`);
  fsyncSync(descriptor);
};

/** `undo` is absent if no way to undo the effect is known. */
type About = Pick<Effect, "kind" | "name"> & Partial<Pick<Effect, "undo">> & Pick<JournalEntry, "detail" | "run">;

export type Journal = ReturnType<typeof openJournal>;
export type SideEffects = Pick<Journal, "about" | "done" | "undone">;

export const openJournal = (path: string, redactor?: Redactor) => {
  const descriptor = openSync(path, "a", 0o600);
  const write = (entry: Written): void => append(descriptor, entry, redactor);
  const open = new Map<string, Effect>();
  let keeper: Keeper | null = null;
  // Makes ids unique, because two runs may append to one file, one after the other.
  const prefix = randomBytes(3).toString("hex");
  let last = 0;
  let isClosed = false;
  let trouble: string | null = null;
  const keep = (effect: Effect): void => {
    open.set(effect.id, effect);
    keeper?.keep(effect);
  };
  return {
    path,
    /** Why an `undone` entry could not be written; `null` if all were. */
    trouble: (): string | null => trouble,
    /** Sets the keeper. It receives the effects that are open now, and every later one. */
    keptBy: (by: Keeper): void => {
      for (const effect of open.values()) by.keep(effect);
      keeper = by;
    },
    /**
     * Writes an effect to the keeper and to disk. Throws if either fails; then the effect must not be done. The keeper
     * comes first: a disk may be slow, and a runner that is killed meanwhile leaves no entry that nobody closes.
     */
    about: ({ undo = { how: "nothing" }, ...about }: About): string => {
      const id = `${prefix}-${++last}`;
      const { kind, name } = about;
      if (isClosed) throw new Error(`the journal is closed; "${name}" must not be done now`);
      try {
        keep({ id, kind, name, undo });
        write({ id, phase: "about", ...about, undo });
      } catch (error) {
        open.delete(id);
        keeper?.forget(id);
        throw error;
      }
      return id;
    },
    done: (id: string, more: { undo?: Undo; detail?: string } = {}): void => {
      const effect = open.get(id);
      if (effect === undefined) throw new Error(`the journal has no open side effect "${id}"`);
      const { kind, name } = effect;
      if (more.undo !== undefined) keep({ ...effect, undo: more.undo });
      write({ id, phase: "done", kind, name, ...more });
    },
    /** Idempotent. After `close` or on a full disk the entry stays open, which is harmless: healing again is safe. */
    undone: (id: string, detail?: string): void => {
      const effect = open.get(id);
      if (effect === undefined || isClosed) return;
      const { kind, name } = effect;
      open.delete(id);
      keeper?.forget(id);
      try {
        write({ id, phase: "undone", kind, name, detail: detail || undefined });
      } catch (error) {
        trouble ??= fileProblem(error)?.sentence ?? (error as Error).message;
      }
    },
    close: (): void => {
      if (!isClosed) closeSync(descriptor);
      isClosed = true;
    },
  };
};

const TEXT_MOST = 2_000;
const MANY = 100;
const DEPTH_MOST = 3;

/** The functions below read entries that anybody may have written, and rebuild them from known, valid fields. */
const fieldsOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value.slice(0, MANY) : []);
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isLike = (value: unknown, shape: RegExp): value is string => typeof value === "string" && shape.test(value);

const textOf = (value: unknown) => (typeof value === "string" ? clean(value.slice(0, TEXT_MOST)) : undefined);

const NAME = /^[A-Za-z0-9_.-]{1,200}$/;
const START = /^[\w :]{1,60}$/;
const MARK = /^[0-9a-f]{16}$/;
const PLANES = ["api", "keys", "limiter"] as const;

/** The fields of `PATCH /deployment` that may have to be restored after an operator's change. */
const NUMBERS = new Set(["clock_offset_ms", "global_in_flight", "org_in_flight", "slots", "service_factor"]);
const SESSIONS = new Set<unknown>(["enabled", "disabled", "not_configured"]);

/** Keeps the known fields with valid values, of a journal's entry or a control plane's answer. */
export const stateOfPlane = (value: unknown): PlaneState["was"] => {
  const known = Object.entries(fieldsOf(value)).filter(
    ([name, said]) => (NUMBERS.has(name) && Number.isFinite(said)) || (name === "sessions" && SESSIONS.has(said)),
  );
  return Object.fromEntries(known) as PlaneState["was"];
};

const planesOf = (value: unknown): PlaneState[] =>
  listOf(value).flatMap((one) => {
    const { at, was, ...said } = fieldsOf(one);
    const plane = PLANES.find((known) => known === said.plane);
    return plane === undefined || !isNumber(at) ? [] : [{ plane, at, was: stateOfPlane(was) }];
  });

/** The undo without commands and addresses. A value that is not an undo becomes `nothing`. */
const namedUndo = (value: unknown, depth = 0): NamedUndo => {
  const said = fieldsOf(value);
  const { how, proxy, fault, replicas, pid, pgid, start, path } = said;
  const { base_url, name, file } = fieldsOf(said.target);
  if (typeof base_url === "string") {
    const target = { base_url: textOf(base_url) as string, name: textOf(name), file: textOf(file) };
    if (how === "heal-proxy" && isLike(proxy, NAME)) return { how, proxy, disables: said.disables === true, target };
    if (how === "command" && isLike(fault, NAME))
      return { how, fault, target, ...(isNumber(replicas) && { replicas }) };
    if (how === "deployment") return { how, planes: planesOf(said.planes), target };
  }
  // Earlier versions wrote `signal` for a process of the run that it had stopped (SIGSTOP), which leads its group.
  const group = how === "signal" ? pid : how === "end-process" ? pgid : undefined;
  if (isNumber(pid) && pid > 1 && isNumber(group) && isLike(start, START))
    return { how: "end-process", pid, start, pgid: group, end_last: said.end_last === true };
  const isPath = typeof path === "string" && path.length <= TEXT_MOST && !path.includes("\0");
  if (how === "remove-folder" && isPath) return { how, path };
  if (how === "all" && Array.isArray(said.undos) && depth <= DEPTH_MOST)
    return { how, undos: listOf(said.undos).map((one) => namedUndo(one, depth + 1)) };
  return { how: "nothing" };
};

const runItself = (value: unknown): RunItself | undefined => {
  const { pid, start, mark } = fieldsOf(value);
  return isNumber(pid) && isLike(start, START) && isLike(mark, MARK) ? { pid, start, mark } : undefined;
};

const entryOf = (line: string): JournalEntry | null => {
  const said = fieldsOf(parseJson(line));
  const { id, by } = said;
  const kind = KINDS.find((known) => known === said.kind);
  const phase = PHASES.find((known) => known === said.phase);
  if (typeof id !== "string" || kind === undefined || phase === undefined) return null;
  return {
    ...{ at: textOf(said.at) ?? "", id, kind, phase, name: textOf(said.name) ?? "" },
    ...(said.undo !== undefined && { undo: namedUndo(said.undo) }),
    ...{ detail: textOf(said.detail), run: runItself(said.run) },
    ...((by === "watchdog" || by === "heal") && { by }),
  };
};

/** Throws if another user could have written the file. `torn`: number of unreadable lines, as after a kill. */
export const readJournal = (path: string): { entries: JournalEntry[]; torn: number } => {
  using atEnd = new DisposableStack();
  const descriptor = atEnd.adopt(openOwnFile(path, "read"), closeSync);
  const lines = readFileSync(descriptor, "utf8").split("\n").filter(Boolean).map(entryOf);
  const entries = lines.filter((entry) => entry !== null);
  return { entries, torn: lines.length - entries.length };
};

export const RUN_ITSELF = "the run itself";

/** Effects not undone, newest first. An effect that was only `about` to be done counts: it may have happened. */
export const openEffects = (entries: readonly JournalEntry[]) => {
  const open = new Map<string, Pick<JournalEntry, "id" | "kind" | "name" | "phase"> & { undo: NamedUndo }>();
  for (const { id, kind, name, phase, undo } of entries) {
    if (phase === "undone") open.delete(id);
    else open.set(id, { id, kind, name, phase, undo: undo ?? open.get(id)?.undo ?? { how: "nothing" } });
  }
  return [...open.values()].reverse();
};

/** The run that wrote the journal, if it has not ended in order. */
export const runOf = (entries: readonly JournalEntry[]): RunItself | null => {
  const open = openEffects(entries).find(({ name }) => name === RUN_ITSELF);
  return entries.find(({ id }) => id === open?.id)?.run ?? null;
};

/** Opens a journal for notes and ends a line left unfinished. Throws if another user could have written the file. */
export const notesIn = (path: string, by: "watchdog" | "heal") => {
  const descriptor = openOwnFile(path, "append");
  const text = readFileSync(descriptor, "utf8");
  if (text !== "" && !text.endsWith("\n")) writeSync(descriptor, "\n");
  return {
    write: ({ id, kind, name, undo }: Effect, phase: "undone" | "about", detail: string): void =>
      append(descriptor, { id, kind, name, phase, detail, undo, by }),
    close: (): void => closeSync(descriptor),
  };
};

// How a side effect is undone, in two forms. `NamedUndo` is written to the journal: fault, component, target. `Undo`
// adds commands and addresses; it stays in memory and is sent to the live watchdog. Healing from a journal takes
// them from the target file given, and ends or removes only what has the run's mark (`undoByName` of faults/healing.ts).

/** The deployment that was changed. `file` is where its target file was, for messages. */
export type TargetName = { base_url: string; name?: string; file?: string };

/** One control plane's fields before a change, for `PATCH /deployment`. `at`: its index among planes of its kind. */
type PlaneState = {
  plane: "api" | "keys" | "limiter";
  at: number;
  was: Record<string, number | string>;
};

type OnTarget = { target: TargetName };

export type NamedUndo =
  /** `disables`: the fault disables the proxy, so healing has to enable it. */
  | (OnTarget & { how: "heal-proxy"; proxy: string; disables: boolean })
  /**
   * `fault`: the name under `faults` of the target file, such as `limiter.refused`. `replicas`: not a fault, but the number to
   * set by the `scale` of the target file.
   */
  | (OnTarget & { how: "command"; fault: string; replicas?: number })
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

export type Notes = ReturnType<typeof notesIn>;

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
    case "all":
      return [...new Set(await tryEach(undo.undos.toReversed(), (one) => runUndo(one, limits)))].join(", ");
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
export const undoAll = async (effects: readonly Effect[], notes: Notes | null, limits: UndoLimits) => {
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
