/** `--dry-run` of a command that plays stages: a table of 80 columns, or JSON. Nothing is sent. */

import { type PlanRequest, planStages } from "../../stages/plan-stages.ts";
import { printJson, printResult } from "./output.ts";
import { wrapped } from "./wrapped.ts";

const row = (name: string, driver: string, seconds: string, calls: string, lacks: string): string =>
  `${name.padEnd(40)} ${driver.padEnd(10)} ${seconds.padStart(7)} ${calls.padStart(8)}${lacks === "" ? "" : `  skipped`}`;

export const showPlan = async (request: PlanRequest, json: boolean): Promise<void> => {
  const plan = await planStages(request);
  if (json) {
    printJson(plan);
    return;
  }
  const { stages, total, target, refused_by_guard: refused, warnings } = plan;
  const minutes = (total.seconds / 60).toFixed(1);
  const budget = Object.entries(target.budget).map(([what, most]) => `${most} ${what}`);
  const isFrom = request.targetFile !== undefined;
  // Twenty experiments lack the same thing; that each has a name of its own under `faults` stands in `chaos --list`.
  const byLack = Map.groupBy(
    stages.filter(({ lacks }) => lacks.length > 0),
    ({ lacks }) => [...new Set(lacks.map((lack) => lack.replace(/faults\["[^"]+"\]/, "faults")))].join("; "),
  );
  const lines = [
    `Nothing was sent to ${isFrom ? target.name : "the embedded deployment, nor was it started"}.`,
    "",
    row("stage", "driver", "seconds", "calls", ""),
    ...stages.map(({ name, driver, seconds, calls, lacks }) =>
      row(name, driver, `${seconds}`, `${calls}`, lacks.join("; ")),
    ),
    row("total", "", `${total.seconds}`, `${total.calls}`, ""),
    "",
    ...wrapped(`At most about ${total.calls} calls in ${minutes} minutes, without the pauses between stages.`),
    ...(isFrom
      ? wrapped(
          budget.length === 0
            ? "The target file states no budget."
            : `Budget of the target file: ${budget.join(", ")}.`,
        )
      : []),
    ...[...byLack].flatMap(([lacks, skipped]) =>
      wrapped(`Skipped: ${skipped.map(({ name }) => name).join(", ")}. Missing: ${lacks}.`),
    ),
    ...warnings.flatMap((warning) => wrapped(`Warning: ${warning}`)),
    ...refused.flatMap((reason) => wrapped(`A run would be refused by the safety guard: ${reason}`)),
  ];
  printResult(lines.join("\n"));
};
