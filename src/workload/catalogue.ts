/** Every story by name, for `load SCENARIO` and the runner: what the files of `stories/` export. */
import * as besideFaults from "./stories/beside-faults.ts";
import { MIXES_AND_STREAMS } from "./stories/mixes-and-streams.ts";
import * as noisy from "./stories/noisy.ts";
import * as reads from "./stories/reads.ts";
import * as smoke from "./stories/smoke.ts";
import * as tileQuota from "./stories/tile-quota.ts";
import type { Story } from "./story.ts";

const isStory = (one: unknown): one is Story => typeof one === "object" && one !== null && "plan" in one;

export const STORIES: ReadonlyMap<string, Story> = new Map(
  [smoke, MIXES_AND_STREAMS, reads, noisy, tileQuota, besideFaults]
    .flatMap((file): unknown[] => Object.values(file))
    .filter(isStory)
    .map((story) => [story.name, story]),
);

export const storyCalled = (name: string): Story => {
  const story = STORIES.get(name);
  if (story === undefined) throw new Error(`there is no story called ${name}`);
  return story;
};
