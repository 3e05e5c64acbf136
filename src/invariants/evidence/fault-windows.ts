/** When a dependency was certainly broken (`FaultWindows`), and when a fault of ours may have touched a call (`ownFaults`). */
import type { CallLine, FaultLine, Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/run-document.ts";
import { decidedByUs, earliestUs, latestUs } from "./moments.ts";

/** `beganUs`: when the injection began; the fault may be in force from then on, and is from `fromUs` on. */
export type FaultWindow = Record<"beganUs" | "fromUs" | "toUs", number> &
  Record<"link" | "fault", string> & { tookEffect: boolean };

/** The refusal of a call that needs a broken dependency (requirements 153, 213, 216). */
export const REFUSAL_OF: Readonly<Record<"limiter" | "keys", string>> = {
  limiter: "429 limiter_unavailable",
  keys: "503",
};

/** Answers that need a working limiter, and so a working key service. */
export const LIMITER_ANSWERS: ReadonlySet<string> = new Set([
  "429 rate_limited",
  "429 map_load_quota_exceeded",
  "429 map_load_hard_stop",
]);

/** Faults under which no answer of the dependency arrives. Under the others some arrive, so a call may be admitted. */
export const LETS_NOTHING_THROUGH: ReadonlySet<string> = new Set([
  ...["refused", "accepted-then-closed", "request-lost", "reply-lost", "reset", "slow-beyond-budget"],
  ...["killed", "stopped", "process-killed", "process-stopped", "store-error", "oom", "readonly", "loading"],
]);

export const letsNothingThrough = ({ fault, tookEffect }: FaultWindow) => tookEffect && LETS_NOTHING_THROUGH.has(fault);

/**
 * Spans in which a fault was in force, from `injected` to `healing`. Another fault on the same link rebuilds the link and may
 * release held data (toxiproxy's latency does), so every change begins a new window.
 */
export class FaultWindows {
  readonly all: FaultWindow[] = [];
  #inForce: Omit<FaultWindow, "beganUs" | "fromUs" | "toUs">[] = [];
  readonly #beganUs = new Map<string, number>();
  /** Number of changes in progress, by link. */
  readonly #changes = new Map<string, number>();

  see({ link, fault, phase, at_us: atUs, took_effect }: FaultLine): void {
    const begins = phase === "injecting" || phase === "healing";
    const changes = Math.max(0, (this.#changes.get(link) ?? 0) + (begins ? 1 : -1));
    this.#changes.set(link, changes);
    if (begins) for (const window of this.all) if (window.link === link) window.toUs = Math.min(window.toUs, atUs);
    if (phase === "injecting") this.#beganUs.set(link, atUs);
    if (phase === "injected") this.#inForce.push({ link, fault, tookEffect: took_effect === true });
    if (phase === "healing") this.#inForce = this.#inForce.filter((one) => one.link !== link || one.fault !== fault);
    if (begins || changes > 0) return;
    for (const one of this.#inForce.filter((each) => each.link === link)) {
      const beganUs = phase === "injected" ? (this.#beganUs.get(link) ?? atUs) : atUs;
      this.all.push({ ...one, beganUs, fromUs: atUs, toUs: Number.POSITIVE_INFINITY });
    }
  }

  /** Windows in which the call was sent and decided. */
  around(call: CallLine, link: string): FaultWindow[] {
    return this.all.filter(
      (window) => window.link === link && earliestUs(call) >= window.fromUs && decidedByUs(call) <= window.toUs,
    );
  }
}

/** Spans in which our faults and changes excuse a call; wider than `FaultWindows`, to cover all possible effects. */
export const ownFaults = (beforeUs: number, afterUs: number) => {
  const spans: { fromUs: number; toUs: number }[] = [];
  /** How often each change or fault is in force. */
  const inForce = new Map<string, number>();
  const change = (name: string, phase: FaultLine["phase"], atUs: number): void => {
    const times = inForce.get(name) ?? 0;
    const now = phase === "injecting" ? times + 1 : phase === "healed" ? times - 1 : Math.max(1, times);
    if (now > 0) inForce.set(name, now);
    else inForce.delete(name);
    const toUs = inForce.size === 0 ? atUs + afterUs : Number.POSITIVE_INFINITY;
    const last = spans.at(-1);
    if (last !== undefined && atUs - beforeUs <= last.toUs) last.toUs = toUs;
    else spans.push({ fromUs: atUs - beforeUs, toUs });
  };
  return {
    see: (line: Line): void => {
      if (line.type === "fault") change(`${line.link} ${line.fault}`, line.phase, line.at_us);
      if (line.type !== "mark") return;
      if (line.name === "operator-changed") change("operator", "injected", line.at_us);
      if (line.name === "operator-restored") change("operator", "healed", line.at_us);
    },
    overlaps: (call: CallLine): boolean =>
      spans.some(({ fromUs, toUs }) => latestUs(call) >= fromUs && earliestUs(call) <= toUs),
  };
};

const DEFAULT_RECOVERY_MS = 5_000;

/** How long after its heal a fault excuses a call. */
export const recoveryUs = ({ recovery_deadline_ms: ms = DEFAULT_RECOVERY_MS }: StageFacts): number => ms * 1000;
