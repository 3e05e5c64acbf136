/**
 * A mutant is a copy of the platform with one behaviour spoilt on purpose. It exists to prove that a judge which passes the
 * healthy platform would have failed this one. It wraps the parts of a role from outside; the platform knows nothing of it.
 * A comment above a spoilt part names a plausible bug that behaves in this way.
 */
import type { AnyRefusalName } from "../contract/refusals.ts";
import type { Stream } from "../contract/routes.ts";
import type { Parts } from "../platform/parts.ts";

/** The small stages (`trials/trials.ts`); a mutant's own is the cheapest on which it has to be caught. */
export type MutantStage =
  | ("answers" | "edge-of-quota" | "month-edge" | "record-changes")
  | ("overload" | "past-capacity" | "noisy" | "rate-edge" | "patient-client" | "two-replicas")
  | ("streams" | "many-streams" | "deploy")
  /** Stages in which a dependency is broken and healed. */
  | ("limiter-refused" | "limiter-reply-lost" | "restart-unsettled" | "pool-after-fault" | "keys-refused")
  | ("verify" | "verify-load" | "gate")
  /** Stages in virtual time. */
  | ("curve" | "retry-storm" | "noisy-and-quiet");

export type Mutant = {
  /** What the mutant does, as a verb. */
  name: string;
  /** Who is harmed and how, in one sentence for a stranger. */
  harm: string;
  /** Judges that must all catch it: ids of invariants, `verify/<rule>`, `gate/<measurement>`, or `curve/<measure>`. */
  kills: readonly string[];
  stage: MutantStage;
  spoil(healthy: Parts): Parts;
};

/** Returns the spoilt parts alone. */
export type Spoil = (healthy: Parts) => Partial<Parts>;

type Row<Name> = readonly [name: Name, stage: MutantStage, kills: readonly string[], harm: string];

/** The mutants of a table, each with what it does to the parts. */
export const spoilt = <Name extends string>(
  rows: readonly Row<Name>[],
  spoils: Readonly<Record<NoInfer<Name>, Spoil>>,
): Mutant[] =>
  rows.map(([name, stage, kills, harm]) => {
    return { name, stage, kills, harm, spoil: (healthy) => ({ ...healthy, ...spoils[name](healthy) }) };
  });

/** Replaces some members of one part, which is a record of functions or values. */
export const members =
  <K extends keyof Parts>(part: K, spoil: (healthy: Parts[K]) => Partial<Parts[K]>): Spoil =>
  (healthy) => ({ [part]: { ...(healthy[part] as object), ...spoil(healthy[part]) } });

type Written = [status: number, headers: string[], body: string];

/** Hands each answer to `spoil`, with the healthy platform's `write`. */
export const writing =
  (spoil: (write: (...answer: Written) => void, ...answer: Written) => void): Spoil =>
  ({ writeAnswer }) => ({
    writeAnswer: (response, ...answer) => spoil((...other) => writeAnswer(response, ...other), ...answer),
  });

/** Delays every refusal because of overload. */
export const sheddingAfter = (ms: number): Spoil =>
  writing((write, status, headers, body) => {
    if (body.includes("_overloaded")) setTimeout(write, ms, status, headers, body);
    else write(status, headers, body);
  });

type Frames = ReturnType<Parts["voice"]["script"]>;

/** Changes the frames of each stream. `n`: the number of the stream, counted from 1. */
export const scripting = (spoil: (frames: Frames, n: number, kind: Stream) => Frames): Spoil =>
  members("voice", ({ script }) => {
    let streams = 0;
    return {
      script: (request) => {
        streams += 1;
        return spoil(script(request), streams, request.kind);
      },
    };
  });

/** Sends refusals under another name. */
export const renaming =
  (names: Readonly<Partial<Record<AnyRefusalName, AnyRefusalName>>>): Spoil =>
  ({ writeRefusal }) => ({
    writeRefusal: (refuse) => writeRefusal({ ...refuse, refuse: names[refuse.refuse] ?? refuse.refuse }),
  });

/** Spoils nothing: a judge that fails it is a false positive. */
export const nobody: Mutant = {
  name: "nobody",
  harm: "none: this is the healthy platform",
  kills: [],
  stage: "answers",
  spoil: (healthy) => healthy,
};
