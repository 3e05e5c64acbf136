/** What a gate or a capacity search wrote down beside the documents that every run has, for the page. */
import { existsSync, readdirSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Comparison } from "../gate/paired-comparison.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { Found } from "../report/charts/charts-section.ts";
import type { FoundCapacity } from "../report/charts/found-charts.ts";
import type { Earlier } from "../report/page/changes.ts";
import { RECORDED_BOUNDS, readUserJson } from "../supervision/user-file.ts";

/** As `makeRunFolder` names them. */
const FOLDER = /^\d{8}T\d{6}Z-(.+)-[0-9a-f]{4}$/;
const LOOKED_AT_MOST = 10;

const read = <T>(path: string): T | null => (existsSync(path) ? (readUserJson(path, RECORDED_BOUNDS) as T) : null);

/** The run before of the same profile on the same target, among the folders beside this one; their names sort by time. */
const readEarlier = (path: string): Earlier | null => {
  const [, profile] = FOLDER.exec(basename(path)) ?? [];
  const own = read<Earlier & Pick<RunDocument, "target">>(join(path, "run.json"));
  if (profile === undefined || own === null) return null;
  const names = readdirSync(dirname(path)).filter(
    (name) => FOLDER.exec(name)?.[1] === profile && name < basename(path),
  );
  for (const name of names.sort().reverse().slice(0, LOOKED_AT_MOST)) {
    try {
      const document = read<Earlier & Pick<RunDocument, "target">>(join(dirname(path), name, "run.json"));
      if (document !== null && document.target.name === own.target.name) return document;
    } catch {
      // A run that was killed may have left half a document; the one before it will do.
    }
  }
  return null;
};

export const readFound = ({ path }: { path: string }): Found & { earlier?: Earlier } => {
  const gate = read<{ comparisons?: Comparison[] }>(join(path, "gate.json"))?.comparisons;
  const capacity = read<FoundCapacity>(join(path, "capacity.json"));
  const earlier = readEarlier(path);
  return {
    ...(earlier === null ? {} : { earlier }),
    ...(gate === undefined ? {} : { gate }),
    ...(capacity === null ? {} : { capacity }),
  };
};
