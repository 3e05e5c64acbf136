/**
 * How a side effect is undone, in two forms. `NamedUndo` stands in the journal on disk: which fault, component and
 * target. `Undo` adds what is executed; it stays in memory and goes to the live watchdog. Healing from a journal takes
 * commands and addresses from the target file given, and touches only processes and folders with the run's mark.
 */
import { clean } from "../contract/foreign-text.ts";
import type { GroupId, ProcessId } from "./processes.ts";

/** Whose deployment something was done to. `file` is where its target file stood, for people. */
export type TargetName = { base_url: string; name?: string; file?: string };

/** What an operator had set on one control plane before it was changed: data that `PATCH /deployment` takes. */
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
  | (ProcessId & { how: "signal" })
  /** A process of ours, with its group; `end_last`: after those that need it. */
  | (GroupId & { how: "end-process"; end_last: boolean })
  /** A folder of ours that holds secrets, after the processes that write into it. */
  | { how: "remove-folder"; path: string }
  /** Several, the last of them first; one that fails does not keep the others. */
  | { how: "all"; undos: readonly NamedUndo[] }
  | { how: "nothing" };

type Named<How extends NamedUndo["how"]> = Extract<NamedUndo, { how: How }>;

export type ProxyUndo = Named<"heal-proxy"> & { api_url: string };
/** For the shell, one after the other, in the folder of the target file. */
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

const NAME = /^[A-Za-z0-9_.-]{1,200}$/;
export const START = /^[\w :]{1,60}$/;
const TEXT_MOST = 2_000;
const MANY = 100;
const DEPTH_MOST = 3;

type Fields = Record<string, unknown>;
const fieldsOf = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});
const isNumber = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;
const isName = (value: unknown): value is string => typeof value === "string" && NAME.test(value);

/** For people, without what a terminal would act on. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === "string" ? clean(value.slice(0, TEXT_MOST)) : undefined;

const targetOf = (value: unknown): TargetName | null => {
  const said = fieldsOf(value);
  const [base_url, name, file] = [textOf(said.base_url), textOf(said.name), textOf(said.file)];
  return base_url === undefined ? null : { base_url, name, file };
};

/** Fields that `PATCH /deployment` takes and an operator's change may have to be taken back from. */
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

/**
 * Reads what may stand in a journal: known fields with values of the right kind, built anew. Anything else is
 * `nothing`.
 */
export const namedUndo = (value: unknown, depth = 0): NamedUndo => {
  const said = fieldsOf(value);
  const { how, proxy, fault, pid, pgid, start, path, undos } = said;
  const target = targetOf(said.target);
  if (target !== null) {
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
