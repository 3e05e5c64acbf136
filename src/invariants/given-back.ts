/** Judges what a replica still holds after a stage: slots, and what was opened for a fault. */
import type { Gauges } from "../history/run-document.ts";
import { isAdmitted, isReference } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, skippedWhenShared } from "./invariant.ts";

/** A replica that keeps the slots of clients that left sheds everybody while idle (item 180). Judged after all calls ended. */
export const slotsAreGivenBack: Judge = ({ gauges, drained, exclusive }) => {
  if (!gauges?.length) return skipped("not-stated", "gauges of the API replicas (control.api in the target file)");
  if (!exclusive) return skippedWhenShared("other callers may hold the slots that are in use");
  const evidence = new Evidence();
  gauges.forEach(({ in_flight, in_flight_by_org }, at) => {
    const name = `replica ${at + 1}`;
    if (in_flight !== 0) evidence.breach(name, `${name} still has ${in_flight} calls in flight`);
    for (const [org, calls] of Object.entries(in_flight_by_org)) {
      if (calls !== 0) evidence.breach(name, `${name} still has ${calls} calls of ${org} in flight`);
    }
  });
  let admitted = 0;
  return {
    see(line, alike = 1) {
      if (line.type === "call" && isAdmitted(line)) admitted += alike;
    },
    end() {
      if (!drained) return inconclusive("state-unknown", "the stage was not drained before the gauges were read");
      if (evidence.count > 0) return failed("slots were not given back", evidence);
      if (admitted === 0) return inconclusive("not-reached", "no call was admitted, so no slot was taken");
      return passed(`after ${admitted} admitted calls every slot was given back`);
    },
  };
};

/** A replica may hold this many more connections, timers or files than before the stage: pools and batches keep some. */
const SPARE = 16;
/** Limiter and key service have a pool each. */
const DEPENDENCIES = 2;

const WATCHED = {
  link_sockets: "connections to its dependencies",
  timers: "timers",
  open_files: "open files",
  sockets: "connections of callers",
};

const shownBy = (before: readonly Gauges[], now: readonly Gauges[]) =>
  now.flatMap((gauges, at) =>
    (Object.keys(WATCHED) as (keyof typeof WATCHED)[]).flatMap((name) => {
      const [was, is] = [before[at]?.[name], gauges[name]];
      const isShown = typeof was === "number" && typeof is === "number";
      return isShown ? [{ replica: at + 1, what: WATCHED[name], was, is }] : [];
    }),
  );

/** Whether a replica holds over `SPARE` more of anything than before. */
export const holdsMore = (before: readonly Gauges[], now: readonly Gauges[]): boolean =>
  shownBy(before, now).some(({ was, is }) => is > was + SPARE);

/**
 * A deployment must close what it opened for a fault (item 180). On a foreign deployment a connection pool may keep one
 * connection for each call that may be in flight.
 */
export const nothingIsLeftOpen: Judge = (facts) => {
  const { faults, gauges, gauges_before: before, drained, exclusive } = facts;
  if (!faults) return skipped("not-seen", "a fault that was healed in this stage");
  if (!gauges?.length || before === undefined) {
    return skipped(
      "not-stated",
      "gauges of the API replicas before and after the stage (control.api in the target file)",
    );
  }
  if (!exclusive) return skippedWhenShared("others open and close connections as well");
  const ofPools = DEPENDENCIES * (facts.limits.global_in_flight ?? Number.POSITIVE_INFINITY);
  const shown = shownBy(before, gauges).map((held) => ({
    ...held,
    spare: SPARE + (isReference(facts) || held.what === WATCHED.timers ? 0 : ofPools),
  }));
  const bounded = shown.filter(({ spare }) => Number.isFinite(spare));
  const evidence = new Evidence();
  for (const { replica, what, was, is, spare } of bounded) {
    if (is > was + spare) evidence.breach(`replica ${replica}`, `${is} ${what}, and ${was} before the stage`);
  }
  if (shown.length === 0) return skipped("not-stated", "`sockets`, `timers` or `open_files` among the gauges");
  if (bounded.length === 0) return skipped("not-stated", "limits.global_in_flight, which bounds what a pool may keep");
  if (!drained) return inconclusive("state-unknown", "the stage was not drained before the gauges were read");
  if (evidence.count > 0) return failed("something that was opened was not closed", evidence);
  const each = new Set(bounded.map(({ what, spare }) => `${what}: at most ${spare} more than before`));
  return passed([...each].join("; "));
};
