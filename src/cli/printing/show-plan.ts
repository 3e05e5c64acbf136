/** `--dry-run` of a command that plays stages: a table of 80 columns, or JSON. Nothing is sent. */
import { wrapped } from "../../report/terminal.ts";
import { type PlannedTarget, type PlanRequest, planStages } from "../../stages/stages-for.ts";
import type { Shown } from "./output.ts";

const row = (name: string, driver: string, seconds: string, calls: string, lacks = ""): string =>
  `${name.padEnd(40)} ${driver.padEnd(10)} ${seconds.padStart(7)} ${calls.padStart(8)}${lacks === "" ? "" : "  skipped"}`;

export const budgetLine = ({ budget }: PlannedTarget): string => {
  const units = Object.entries(budget).map(([what, most]) => `${most} ${what}`);
  return units.length === 0 ? "The target file states no budget." : `Budget of the target file: ${units.join(", ")}.`;
};

export const guardLines = (refused: readonly string[]): string[] =>
  refused.flatMap((reason) => wrapped(`A run would be refused by the safety guard: ${reason}`));

export const stagesPlan = async (request: PlanRequest): Promise<Shown> => {
  const plan = await planStages(request);
  const { stages, total, target, refused_by_guard: refused, warnings } = plan;
  const isFrom = request.targetFile !== undefined;
  // Many experiments lack the same thing but for their own name under `faults`, so that name is left out.
  const byLack = Map.groupBy(
    stages.filter(({ lacks }) => lacks.length > 0),
    ({ lacks }) => [...new Set(lacks.map((lack) => lack.replace(/faults\["[^"]+"\]/, "faults")))].join("; "),
  );
  const minutes = (total.seconds / 60).toFixed(1);
  const lines = [
    `Nothing was sent to ${isFrom ? target.name : "the embedded deployment, nor was it started"}.`,
    "",
    row("stage", "driver", "seconds", "calls"),
    ...stages.map(({ name, driver, seconds, calls, lacks }) =>
      row(name, driver, `${seconds}`, `${calls}`, lacks.join("; ")),
    ),
    row("total", "", `${total.seconds}`, `${total.calls}`),
    "",
    ...wrapped(`At most about ${total.calls} calls in ${minutes} minutes, without the pauses between stages.`),
    ...(isFrom ? wrapped(budgetLine(target)) : []),
    ...[...byLack].flatMap(([lacks, skipped]) =>
      wrapped(`Skipped: ${skipped.map(({ name }) => name).join(", ")}. Missing: ${lacks}.`),
    ),
    ...warnings.flatMap((warning) => wrapped(`Warning: ${warning}`)),
    ...guardLines(refused),
  ];
  return { document: plan, lines };
};
