/** `chaos --list`: what there is to break, and what must hold. Nothing is sent. */
import { plannedEmbedded } from "../../deployments/tenants.ts";
import { HOLDS_ALWAYS } from "../../faults/experiments.ts";
import { aboutFault, type Component, type Fault, faultKey } from "../../faults/fault.ts";
import { FAULT_STATE_WORDS } from "../../history/states-reached.ts";
import { wrapped } from "../../report/terminal.ts";
import { experimentsFor } from "../../run/experiments/chosen.ts";
import type { Target } from "../../target/target.ts";
import { readTargetFile } from "../../target/target-file.ts";
import { printShown } from "./output.ts";

const about = (fault: Fault, target: Target | null): { what: string; stream: string } =>
  aboutFault(fault, (target ?? plannedEmbedded()).limits);

const PART: Readonly<Record<Component, string>> = {
  limiter: "the limiter",
  keys: "the key service",
  api: "the API",
  edge: "the API",
  service: "the whole service",
};
const FROM: Readonly<Record<Fault["by"], string>> = {
  link: "the way to ",
  process: "",
  store: "the store of ",
  operator: "",
  commands: "",
};

/** `  breaks   …`, its further lines under the first. */
const entry = (label: string, text: string): string[] => wrapped(text, `  ${label.padEnd(9)}`, 11);

export const listExperiments = async (targetFile: string | undefined, isJson: boolean | undefined): Promise<void> => {
  const target = targetFile === undefined ? null : (await readTargetFile(targetFile)).target;
  const all = [...experimentsFor(target).values()];
  const listed = all.map(({ name, faults, holds, store, requiredStates }) => {
    const [{ component, fault }] = faults;
    const abouts = faults.map((one) => about(one, target));
    return {
      name,
      link: component,
      fault,
      stream: abouts[0]?.stream,
      breaks: abouts.map(({ what }) => what).join("; "),
      at_once: faults.length === 1 ? undefined : faults.map(faultKey),
      needs_limiter: store,
      must_hold: [holds, ...HOLDS_ALWAYS],
      must_meet: requiredStates,
    };
  });
  const lines = all.flatMap(({ name, faults, holds, store, requiredStates = [] }) => [
    name,
    ...entry("on", faults.map(({ by, component }) => `${FROM[by]}${PART[component]}`).join(" and ")),
    ...entry("breaks", [...new Set(faults.map((one) => about(one, target).what))].join("; ")),
    ...(store === "redis" ? entry("needs", "--limiter redis") : []),
    ...entry("must", holds),
    ...(requiredStates.length === 0
      ? []
      : entry("meets", requiredStates.map((state) => FAULT_STATE_WORDS[state]).join("; "))),
  ]);
  printShown(isJson, {
    document: { schema: "floodgate/experiments@1", experiments: listed },
    lines: [...lines, "", "In every experiment:", ...HOLDS_ALWAYS.map((text) => `  - ${text}`)],
  });
};
