/** What a gate or a capacity search wrote down beside the documents that every run has, for the page. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Comparison } from "../gate/paired-comparison.ts";
import type { FoundCapacity } from "../report/charts/capacity-chart.ts";
import type { Found } from "../report/charts/charts-section.ts";
import { RECORDED_BOUNDS, readUserJson } from "../supervision/user-file.ts";

const read = <T>(path: string): T | null => (existsSync(path) ? (readUserJson(path, RECORDED_BOUNDS) as T) : null);

export const readFound = ({ path }: { path: string }): Found => {
  const gate = read<{ comparisons?: Comparison[] }>(join(path, "gate.json"))?.comparisons;
  const capacity = read<FoundCapacity>(join(path, "capacity.json"));
  return { ...(gate === undefined ? {} : { gate }), ...(capacity === null ? {} : { capacity }) };
};
