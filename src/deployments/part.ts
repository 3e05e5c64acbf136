/**
 * A process of a deployment of ours that a disturbance may kill, stop and start again: on the same ports and on the same
 * store, as an orchestrator would, so that whoever calls it finds it where it was.
 */

import type { Child } from "../supervision/supervisor.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import { type LinkProbe, observeLink } from "../tools/link-probe.ts";

export type Part = {
  readonly name: string;
  pid(): number;
  isRunning(): boolean;
  /** SIGKILL; resolves when it is gone. */
  kill(): Promise<void>;
  /** SIGTERM, and nothing is waited for. */
  askToEnd(): void;
  /** SIGTERM; resolves when it has finished what it had begun and is gone. Rejects at the deadline. */
  endInOrder(): Promise<void>;
  /** SIGSTOP: it keeps its connections and says nothing more. */
  stop(): void;
  /** Starts it where it was, after it has ended; resolves when it listens. */
  startAgain(signal: AbortSignal): Promise<void>;
  /** Whatever was done to it: woken, or started again; resolves when it answers. */
  bringBack(signal: AbortSignal): Promise<void>;
  /** One question on its own port, past every proxy. */
  probe(giveUpMs: number): LinkProbe;
};

/** Starts the process; `again` are the addresses that it had, to be taken again. */
type Launch<At> = (again: At | null) => Promise<{ child: Child; at: At }>;

/** Longer than the longest call of a stage. */
const END_MS = 12_000;
const TRIES = 5;
const TRY_AGAIN_MS = 200;
const PROBE_MS = 500;
const ANSWERS_MS = 10_000;

export const openPart = async <At>(
  name: string,
  launch: Launch<At>,
  probeOf: (at: At, giveUpMs: number) => LinkProbe,
): Promise<{ part: Part; at: At }> => {
  let { child, at } = await launch(null);
  let isStopped = false;
  let isEnding = false;

  const startAgain = async (signal: AbortSignal): Promise<void> => {
    for (let tried = 1; ; tried += 1) {
      try {
        ({ child, at } = await launch(at));
        return;
      } catch (error) {
        // Somebody's outgoing connection may hold the port for a moment.
        if (tried === TRIES || signal.aborted) throw error;
        await pause(TRY_AGAIN_MS, signal);
      }
    }
  };
  const gone = async (): Promise<void> => {
    const over = new AbortController();
    const late = pause(END_MS, over.signal).then(() => over.signal.aborted);
    const inTime = await Promise.race([child.exited.then(() => true), late]);
    over.abort();
    if (!inTime) throw new Error(`${name} was asked to end and is there after ${END_MS / 1000} s`);
  };
  const part: Part = {
    name,
    startAgain,
    pid: () => child.pid,
    isRunning: () => !child.hasExited(),
    kill: async () => {
      child.signal("SIGKILL");
      await child.exited;
      isStopped = false;
    },
    askToEnd: () => {
      child.signal("SIGTERM");
      isEnding = true;
    },
    endInOrder: async () => {
      child.signal("SIGTERM");
      await gone();
    },
    stop: () => {
      child.signal("SIGSTOP");
      isStopped = true;
    },
    bringBack: async (signal) => {
      if (isEnding) await gone();
      isEnding = false;
      if (child.hasExited()) await startAgain(signal);
      else if (isStopped) child.signal("SIGCONT");
      isStopped = false;
      const answers = async (): Promise<boolean> => (await observeLink(part.probe(PROBE_MS))).ended === "complete";
      const { met } = await waitUntil(answers, { forMs: ANSWERS_MS, pollMs: 20, signal });
      if (!met) throw new Error(`${name} does not answer ${ANSWERS_MS / 1000} s after it was brought back`);
    },
    probe: (giveUpMs) => probeOf(at, giveUpMs),
  };
  return { part, at };
};
