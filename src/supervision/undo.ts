/**
 * How a side effect is taken back, in two forms. `Undo` can be carried out: it stays in memory, and goes to the live watchdog
 * through its pipe. `NamedUndo` is what the journal on disk keeps of it: which fault, on which component, of which target, and
 * nothing that could be executed. Whoever heals from a journal gets the commands and addresses from the target file that the
 * user names, and touches only processes and folders that carry the mark of the run.
 */

import { clean } from "../contract/foreign-text.ts";

/** Whose deployment something was done to. `file` is where its target file stood, for people. */
export type TargetName = { base_url: string; name?: string; file?: string };

/** What an operator had set on one control plane before it was changed: data that `PATCH /deployment` takes. */
export type PlaneState = {
  plane: "api" | "keys" | "limiter";
  /** Which one of several, from 0. */
  at: number;
  was: Record<string, number | string>;
};

/** What was done to somebody's deployment, named by what its target file says of it. */
type OnTarget = { target: TargetName };

export type ProxyUndo = OnTarget & {
  how: "heal-proxy";
  proxy: string;
  /** The fault disables the proxy, so that healing has to enable it. */
  disables: boolean;
  api_url: string;
};
export type CommandUndo = OnTarget & {
  how: "command";
  /** The name under `faults` of the target file: `limiter.refused`. */
  fault: string;
  /** For the shell, one after the other, in the folder of the target file. */
  commands: readonly string[];
  cwd: string;
};
export type ChangeUndo = OnTarget & {
  how: "deployment";
  planes: readonly (PlaneState & { url: string })[];
};

export type Undo =
  | ProxyUndo
  | CommandUndo
  | ChangeUndo
  /** For a process that was stopped. `start` distinguishes it from a later process of the same number. */
  | { how: "signal"; pid: number; start: string; signal: "SIGCONT" }
  /** A process of ours that is still there, with its group. */
  | { how: "end-process"; pid: number; start: string; pgid: number; end_last: boolean }
  /** A folder of ours that holds secrets, after the processes that write into it. */
  | { how: "remove-folder"; path: string }
  /** The lock of a target; without a watchdog the next run removes it, because its process is gone. */
  | { how: "remove-lock"; path: string }
  /** Several, the last of them first; one that cannot be taken back does not keep the others. */
  | { how: "all"; undos: readonly Undo[] }
  | { how: "nothing" };

export type NamedUndo =
  | Omit<ProxyUndo, "api_url">
  | Omit<CommandUndo, "commands" | "cwd">
  | (Omit<ChangeUndo, "planes"> & { planes: readonly PlaneState[] })
  | { how: "signal"; pid: number; start: string }
  | { how: "end-process"; pid: number; start: string; pgid: number; end_last: boolean }
  | { how: "remove-folder"; path: string }
  | { how: "all"; undos: readonly NamedUndo[] }
  | { how: "nothing" };

/** What may stand in the journal. */
export const namedUndo = (undo: Undo): NamedUndo => {
  switch (undo.how) {
    case "heal-proxy":
      return { how: undo.how, proxy: undo.proxy, disables: undo.disables, target: undo.target };
    case "command":
      return { how: undo.how, fault: undo.fault, target: undo.target };
    case "deployment":
      return {
        how: undo.how,
        planes: undo.planes.map(({ plane, at, was }) => ({ plane, at, was })),
        target: undo.target,
      };
    case "signal":
      return { how: undo.how, pid: undo.pid, start: undo.start };
    case "all":
      return { how: "all", undos: undo.undos.map(namedUndo) };
    case "remove-lock":
      return { how: "nothing" };
    default:
      return undo;
  }
};

const NAME = /^[A-Za-z0-9_.-]{1,200}$/;
/** The start time of a process, as `processes.ts` has it. */
export const START = /^[\w :]{1,60}$/;
const TEXT_MOST = 2_000;
const MANY = 100;

type Fields = Record<string, unknown>;
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): value is string => typeof value === "string" && NAME.test(value);

/** For people, without what a terminal would act on. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? clean(value.slice(0, TEXT_MOST)) : undefined;

const targetOf = (value: unknown): TargetName | null => {
  const { base_url, name, file } = fieldsOf(value);
  const url = textOf(base_url);
  if (url === undefined) return null;
  const [said, at] = [textOf(name), textOf(file)];
  return { base_url: url, ...(said === undefined ? {} : { name: said }), ...(at === undefined ? {} : { file: at }) };
};

/** Fields that `PATCH /deployment` takes and an operator's change may have to be taken back from (interface.md section 4). */
const NUMBERS = new Set(["clock_offset_ms", "global_in_flight", "org_in_flight", "slots", "service_factor"]);
const SESSIONS = new Set<unknown>(["enabled", "disabled", "not_configured"]);

/** Of what a control plane or a journal says, the known fields with values of the right kind. */
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

/** Reads what a journal says: known shapes with values of the right kind, built anew; anything else is `nothing`. */
export const readNamedUndo = (value: unknown, depth = 0): NamedUndo => {
  const said = fieldsOf(value);
  const { pid, pgid, start } = said;
  const target = targetOf(said.target);
  const isProcess = isNumber(pid) && pid > 1 && typeof start === "string" && START.test(start);
  switch (said.how) {
    case "heal-proxy":
      if (target === null || !isName(said.proxy)) break;
      return { how: "heal-proxy", proxy: said.proxy, disables: said.disables === true, target };
    case "command":
      if (target === null || !isName(said.fault)) break;
      return { how: "command", fault: said.fault, target };
    case "deployment":
      if (target === null) break;
      return { how: "deployment", planes: planesOf(said.planes), target };
    case "signal":
      if (!isProcess) break;
      return { how: "signal", pid: pid as number, start: start as string };
    case "end-process":
      if (!isProcess || !isNumber(pgid)) break;
      return {
        how: "end-process",
        pid: pid as number,
        start: start as string,
        pgid,
        end_last: said.end_last === true,
      };
    case "remove-folder":
      if (typeof said.path !== "string" || said.path.length > TEXT_MOST || said.path.includes("\0")) break;
      return { how: "remove-folder", path: said.path };
    case "all":
      if (depth > 3 || !Array.isArray(said.undos)) break;
      return { how: "all", undos: said.undos.slice(0, MANY).map((one) => readNamedUndo(one, depth + 1)) };
  }
  return { how: "nothing" };
};

/** The journal as an experiment sees it. `about` returns only when the entry is on disk. */
export type SideEffects = {
  about: (effect: { kind: "fault"; name: string; undo: Undo }) => string;
  done: (id: string) => void;
  undone: (id: string, detail?: string) => void;
};
