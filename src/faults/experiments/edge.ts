/** Faults between callers and the API. Callers see broken answers; what must be well is what the API makes of it. */
import type { ExperimentEntry } from "./experiment-entry.ts";

const entry = (name: string, fault: string, holds: string): ExperimentEntry => ({
  name,
  breaks: [{ by: "link", link: "edge", fault }],
  refuses: "none",
  meets: ["streams-open"],
  holds,
});

export const EDGE_EXPERIMENTS: readonly ExperimentEntry[] = [
  entry("client-cut-mid-stream", "truncated-reply", "a slot is given back when the connection ends in mid-stream"),
  entry("slow-client", "trickle", "an answer that is read in crumbs holds its own slot and nobody else's"),
  entry("edge-reset", "reset", "a call whose connection is reset is charged at most once, and its slot is given back"),
];
