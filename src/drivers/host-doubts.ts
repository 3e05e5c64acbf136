/** What a reader must know of the host before a figure about time is believed, where no stage's facts are at hand. */
import { cpus } from "node:os";
import { hostNotesOf } from "../history/time-doubts.ts";
import type { HostNotes } from "./host-notes.ts";

export const hostDoubts = (stage: string, host: HostNotes | null): string[] => {
  const rest = { target_cores: null, other_cores: null, rate_error: null };
  const silent = { calls: 0, lag_ms: [], generator: [], calibration: [] };
  const notes = hostNotesOf({ host, cores: cpus().length, ...rest, ...silent });
  return notes.map((note) => `${stage}: ${note}`);
};
