/**
 * Draws the cases of a property and returns the result as data: for the tests (`law.ts`), for the trials of mutants, and for
 * the replay of one case. Does not depend on vitest.
 */
import fc from "fast-check";

export type Property = fc.IRawProperty<unknown>;

export type Finding = {
  seed: number;
  path: string;
  /** Which commands of a model-based property were run. */
  commands: string | undefined;
  /** The message of the predicate's error. */
  why: string;
  /** fast-check's report and `why`. */
  message: string;
};

export type Draw = {
  seed: number;
  runs: number;
  /** Only the case at this path, and through these commands of a model. */
  path?: string | undefined;
  commands?: string | undefined;
  /** Whether a failing case is shrunk (default); a waste of time if it is enough to know that one exists. */
  shrinks?: boolean;
};

/** Thrown for a path that leads to no case of the property. */
export class NoSuchCase extends Error {
  override name = "NoSuchCase";
}

/** Model-based runs print the path through their commands. */
const commandsIn = (report: string): string | undefined => /replayPath="([^"]*)"/.exec(report)?.[1];

/** Thrown if the predicate set the case at a path aside (a precondition, or a machine that stood still). */
export class NotJudged extends Error {
  override name = "NotJudged";
}

/** When a replayed case holds, fast-check goes on to its neighbours; this wrapper runs the case alone. */
const firstCaseOnly = (property: Property, judged: { cases: number; setAside: boolean }): Property => ({
  isAsync: () => property.isAsync(),
  generate: (random, bias) => property.generate(random, bias),
  shrink: (value) => property.shrink(value),
  runBeforeEach: () => property.runBeforeEach(),
  runAfterEach: () => property.runAfterEach(),
  run: (value) => {
    judged.cases += 1;
    if (judged.cases > 1) return property.isAsync() ? Promise.resolve(null) : null;
    const noted = <T>(result: T): T => {
      judged.setAside = fc.PreconditionFailure.isFailure(result as never);
      return result;
    };
    const result = property.run(value);
    return result instanceof Promise ? result.then(noted) : noted(result);
  },
});

const check = async (property: Property, { seed, runs, path, shrinks = true }: Draw) => {
  if (path === undefined) {
    return fc.check(property as fc.IAsyncProperty<unknown>, { seed, numRuns: runs, endOnFailure: !shrinks });
  }
  const judged = { cases: 0, setAside: false };
  const only = firstCaseOnly(property, judged);
  const details = await Promise.resolve()
    .then(() => fc.check(only as fc.IAsyncProperty<unknown>, { seed, numRuns: 1, path, endOnFailure: true }))
    .catch((error: unknown) => {
      throw new NoSuchCase(error instanceof Error ? error.message : String(error));
    });
  if (judged.cases === 0) throw new NoSuchCase(`no case is drawn at ${path}`);
  if (judged.setAside)
    throw new NotJudged(`The case at ${path} was set aside: try again when the machine is less busy.`);
  return details;
};

/** Returns `null` if the law held for each case. Throws if no case was drawn, which would prove nothing. */
export const examine = async (property: Property, draw: Draw): Promise<Finding | null> => {
  const details = await check(property, draw);
  if (!details.failed) {
    if (details.numRuns === 0) throw new Error("No case was drawn, so nothing was judged.");
    return null;
  }
  const report = (await fc.asyncDefaultReportMessage(details)) ?? "no report";
  const why = details.errorInstance instanceof Error ? details.errorInstance.message : "the predicate said false";
  const commands = draw.path === undefined ? commandsIn(report) : draw.commands;
  const path = details.counterexamplePath ?? draw.path ?? "0";
  return { seed: draw.seed, path, commands, why, message: `${report}\n\nWhy: ${why}` };
};
