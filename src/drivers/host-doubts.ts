/** What a reader must know of the host before a figure about time is believed. */
import type { HostNotes } from "./host-notes.ts";

const LAG_MS = 20;
const STEAL_SHARE = 0.05;

export const hostDoubts = (stage: string, host: HostNotes | null): string[] => {
  if (host === null) return [];
  const notes: string[] = [];
  const lag = host.event_loop_lag_ms_p99;
  if (lag > LAG_MS) notes.push(`${stage}: the driver's event loop lagged ${lag.toFixed(0)} ms (p99)`);
  const steal = host.steal_share ?? 0;
  if (steal > STEAL_SHARE) notes.push(`${stage}: the hypervisor took ${(steal * 100).toFixed(0)} % of the CPU`);
  if ((host.listen_overflows ?? 0) > 0) notes.push(`${stage}: ${host.listen_overflows} accept-queue overflows`);
  if ((host.syn_retransmits ?? 0) > 0) notes.push(`${stage}: ${host.syn_retransmits} SYN retransmits`);
  return notes;
};
