/** Plays each mutant's small stage on the healthy and on the spoilt platform, in this process alone, and shows who finds it. */
import { seriesFold } from "../history/fold-series.ts";
import { stageMeasure } from "../history/measure.ts";
import type { Claim } from "../history/run-document.ts";
import type { Series } from "../history/series.ts";
import type { RecordedStage } from "../history/stage-facts.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import type { Mutant } from "../mutants/mutant.ts";
import { healthyParts, MINI_STAGES, type Played, playMiniStage } from "./trials.ts";

/** The default: a regression of shedding, a quota that admits one too many, a limiter that fails open. */
export const PLANTED = ["sheds-too-early", "admits-one-too-many", "fails-open"];

/** Mutants that an invariant kills on a small stage; the others need verify or the gate, which take longer. */
export const PLANTABLE: readonly Mutant[] = MUTANTS.filter(({ stage }) => {
  const small = MINI_STAGES[stage];
  return "play" in small && small.rulesAlone !== true;
});

export type DemoProgress = (line: { defect: Mutant; platform: "healthy" | "spoilt"; claims: readonly Claim[] }) => void;

const healthyStage = ({ name }: Mutant): string => `${name}-healthy`;

/** Plays the stage on the healthy platform, then with the defect. Rejects if it could not be played. */
const playDefect = async (defect: Mutant, progress: DemoProgress): Promise<Played[]> => {
  const stage = MINI_STAGES[defect.stage];
  if (!("play" in stage)) throw new Error(`expected a small stage for ${defect.name}`);
  // Keeps the judges that the stage is made for; the others see too little.
  const about = [...stage.proves, ...defect.kills];
  const played: Played[] = [];
  for (const platform of ["healthy", "spoilt"] as const) {
    const parts = platform === "healthy" ? healthyParts() : defect.spoil(healthyParts());
    const name = platform === "healthy" ? healthyStage(defect) : defect.name;
    const { claims: all, facts, lines } = await playMiniStage(defect.stage, stage, parts);
    const claims = all
      .filter(({ id, verdict }) => verdict === "fail" || about.includes(id.replace(/\/.*$/, "")))
      .map((claim) => {
        const id = claim.id.replace(/\/.*$/, `/${name}`);
        return { ...claim, id, stage: name, replay: `npx floodgate demo ${defect.name}` };
      });
    progress({ defect, platform, claims });
    played.push({ claims, facts: { ...facts, stage: name }, lines: lines.map((line) => ({ ...line, stage: name })) });
  }
  return played;
};

/** Whether every judge that must kill the mutant did, and none failed the healthy platform. */
const isFound = (defect: Mutant, claims: readonly Claim[]): boolean => {
  const failed = claims.filter(({ verdict }) => verdict === "fail");
  const isKilledBy = (id: string): boolean => failed.some((claim) => claim.id === `${id}/${defect.name}`);
  return defect.kills.every(isKilledBy) && !failed.some(({ stage }) => stage === healthyStage(defect));
};

/** `missed`: mutants that survived a judge that must kill them. */
export const playDemo = async (
  defects: readonly Mutant[],
  progress: DemoProgress,
): Promise<{ stages: RecordedStage[]; series: Series; missed: string[] }> => {
  const played: Played[] = [];
  for (const defect of defects) played.push(...(await playDefect(defect, progress)));
  const fold = seriesFold();
  const stages = played.map(({ facts, lines, claims }): RecordedStage => {
    const measure = stageMeasure(facts.stage);
    for (const line of lines) {
      measure.see(line);
      fold.see(line);
    }
    if (facts.limits !== undefined) fold.limits(facts.stage, facts.limits);
    return { ...measure.end(), claims, faults: [], notes: [] };
  });
  const claims = stages.flatMap((stage) => stage.claims);
  const missed = defects.filter((one) => !isFound(one, claims)).map(({ name }) => name);
  return { stages, series: fold.end(), missed };
};
