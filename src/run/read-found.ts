/** What a gate or a capacity search wrote down beside the documents that every run has, for the page. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Comparison } from "../gate/paired-comparison.ts";
import type { FoundCapacity } from "../report/charts/capacity-chart.ts";
import type { Found } from "../report/charts/charts-section.ts";

const read = <T>(path: string): T | null => (existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as T) : null);

export const readFound = ({ path }: { path: string }): Found => {
  const gate = read<{ comparisons?: Comparison[] }>(join(path, "gate.json"))?.comparisons;
  const capacity = read<FoundCapacity>(join(path, "capacity.json"));
  return { ...(gate === undefined ? {} : { gate }), ...(capacity === null ? {} : { capacity }) };
};
