/**
 * Finds what undoes an effect named in a journal. Nothing executable is read from the journal: commands, proxies and
 * control planes come from the user's target files; processes and folders must carry the run's mark.
 */
import { lstatSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import type { NamedUndo, RunItself, TargetName, Undo } from "../supervision/journal.ts";
import { whyNotOwn } from "../supervision/private-file.ts";
import { carriesMark, hasEnded } from "../supervision/processes.ts";
import { FOLDER_MARK } from "../supervision/supervisor.ts";
import type { Target } from "../target/target.ts";
import { isSameTarget } from "../target/target-file.ts";

export type GivenTarget = { target: Target; file: string };

/** `needs`: the deployment whose target file is missing. */
type ByName = { undo: Undo } | { trouble: string; needs: TargetName | null };

/** `run`: the run that wrote the journal, if the journal names it. `folder`: the run's folder. */
type Known = { run: RunItself | null; folder: string; given: readonly GivenTarget[] };

const not = (trouble: string): ByName => ({ trouble, needs: null });

const onTarget = (named: Extract<NamedUndo, { target: TargetName }>, given: readonly GivenTarget[]): ByName => {
  const its = given.find(({ target }) => isSameTarget(named.target, target));
  if (its === undefined) {
    const { name, base_url, file } = named.target;
    const was = file === undefined ? "" : ` (it was ${file})`;
    const how = "`npx floodgate chaos --heal --target FILE`";
    return { trouble: `needs the target file of ${name ?? base_url}: ${how}${was}`, needs: named.target };
  }
  const { faults = {}, toxiproxy, control } = its.target;
  switch (named.how) {
    case "command":
      if (!Object.hasOwn(faults, named.fault)) return not(`${its.file} has no faults["${named.fault}"] any more`);
      return { undo: { ...named, commands: faults[named.fault]?.heal ?? [], cwd: dirname(resolve(its.file)) } };
    case "heal-proxy": {
      const isNamed = Object.values(toxiproxy?.proxies ?? {}).includes(named.proxy);
      if (toxiproxy === undefined || !isNamed) return not(`${its.file} names no proxy "${named.proxy}" any more`);
      return { undo: { ...named, api_url: toxiproxy.api_url } };
    }
    case "deployment": {
      const urls = { api: control?.api ?? [], keys: [control?.keys], limiter: [control?.limiter] };
      const planes = named.planes.map((state) => ({ ...state, url: urls[state.plane][state.at] ?? "" }));
      const missing = planes.find(({ url }) => url === "");
      if (missing === undefined) return { undo: { ...named, planes } };
      return not(`${its.file} has no control plane ${missing.plane} number ${missing.at + 1}`);
    }
  }
};

const GONE: ByName = { undo: { how: "nothing" } };

const onProcess = (named: Extract<NamedUndo, { how: "end-process" }>, { run }: Known): ByName => {
  if (hasEnded(named)) return GONE;
  if (run === null || !carriesMark(named.pid, run.mark))
    return not(`process ${named.pid} does not carry the mark of this run: left alone`);
  return { undo: named };
};

const OUR_PREFIX = "floodgate-";

/** Allows removal only of a folder of this user with the run's mark, in the run folder or with our prefix. */
const onFolder = (path: string, { run, folder }: Known): ByName => {
  const alone = (why: string): ByName => not(`the folder ${path} ${why}: left alone`);
  const about = lstatSync(path, { throwIfNoEntry: false });
  if (about === undefined) return GONE;
  if (!about.isDirectory()) return alone("is no folder");
  const isPlaced = resolve(path) === path && (dirname(path) === folder || basename(path).startsWith(OUR_PREFIX));
  if (!isPlaced) return alone(`is not in the run's folder, and its name does not begin with ${OUR_PREFIX}`);
  const why = whyNotOwn(about);
  if (why !== null) return alone(why);
  const mark = join(path, FOLDER_MARK);
  const isFile = lstatSync(mark, { throwIfNoEntry: false })?.isFile() === true;
  const isMarked = run !== null && isFile && readFileSync(mark, "utf8") === run.mark;
  return isMarked ? { undo: { how: "remove-folder", path } } : alone("does not carry the mark of this run");
};

export const undoByName = (named: NamedUndo, known: Known): ByName => {
  switch (named.how) {
    case "nothing":
      return GONE;
    case "end-process":
      return onProcess(named, known);
    case "remove-folder":
      return onFolder(named.path, known);
    case "all": {
      const parts = named.undos.map((one) => undoByName(one, known));
      const first = parts.find((part) => "trouble" in part);
      if (first !== undefined) return first;
      return { undo: { how: "all", undos: parts.flatMap((part) => ("undo" in part ? [part.undo] : [])) } };
    }
    default:
      return onTarget(named, known.given);
  }
};
