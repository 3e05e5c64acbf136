/** `chaos --list`: what there is to break, and what must hold. Nothing is sent. */
import { FAULT_NAMES, makeFault } from "../chaos/catalogue.ts";
import { HOLDS_ALWAYS, type LinkExperiment } from "../chaos/experiments/link-experiment.ts";
import { experimentsFor } from "../run/experiments/chosen.ts";
import type { Target } from "../target/target.ts";
import { readTargetFile } from "../target/target-file.ts";

/** Budgets of the embedded deployment, and of one that states none, in milliseconds. */
const EMBEDDED_MS = { limiter: 250, keys: 1_000 } as const;
const UNSTATED_MS = 1_000;
const BY_COMMAND = "what the commands of the target file do";

const breaks = ({ link, fault }: LinkExperiment, target: Target | null): { fault: string; stream: string } => {
  if (!FAULT_NAMES.includes(fault)) return { fault: BY_COMMAND, stream: "both" };
  const { limiter_budget_ms: limiter, key_service_budget_ms: keys } = target?.limits ?? {};
  const stated = target === null ? EMBEDDED_MS[link] : link === "limiter" ? limiter : keys;
  const { what, stream } = makeFault(fault, { budgetMs: stated ?? UNSTATED_MS });
  return { fault: what, stream };
};

const WIDTH = 80;
const INDENT = " ".repeat(11);

/** `  breaks   …`, its further lines under the first. */
const wrapped = (label: string, text: string): string => {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const last = lines.at(-1);
    if (last === undefined || INDENT.length + last.length + 1 + word.length > WIDTH) lines.push(word);
    else lines[lines.length - 1] = `${last} ${word}`;
  }
  return `  ${label.padEnd(INDENT.length - 2)}${lines.join(`\n${INDENT}`)}`;
};

export const listExperiments = async (targetFile: string | undefined, json: boolean): Promise<void> => {
  const target = targetFile === undefined ? null : (await readTargetFile(targetFile)).target;
  const all = [...experimentsFor(target).values()];
  if (json) {
    const listed = all.map((experiment) => {
      const { fault: what, stream } = breaks(experiment, target);
      const { name, link, fault, holds } = experiment;
      return { name, link, fault, stream, breaks: what, must_hold: [holds, ...HOLDS_ALWAYS] };
    });
    process.stdout.write(`${JSON.stringify({ schema: "floodgate/experiments@1", experiments: listed }, null, 2)}\n`);
    return;
  }
  const lines = all.flatMap((experiment) => [
    experiment.name,
    wrapped("on", `the way to the ${experiment.link === "keys" ? "key service" : "limiter"}`),
    wrapped("breaks", breaks(experiment, target).fault),
    wrapped("must", experiment.holds),
  ]);
  process.stdout.write(
    `${lines.join("\n")}\n\nIn every experiment:\n${HOLDS_ALWAYS.map((text) => `  - ${text}\n`).join("")}`,
  );
};
