/** Searches everything that a run captured for credentials: its last claim. */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { Claim } from "../history/run-document.ts";
import { bareFacts, type StageFacts } from "../history/stage-facts.ts";
import { INVARIANTS } from "../invariants/catalogue.ts";
import { judgeStage } from "../invariants/judge-stage.ts";
import { textBlocks } from "./read-lines.ts";

/** What a run captured; reports are rendered from it. */
const CAPTURED = ["journal.ndjson", "history.ndjson", "ledger.ndjson", "stages.json"];

/** Block by block, since a history may be longer than a string; no credential spans two lines. */
function* textsOf(folder: string, names: readonly string[]): Generator<{ name: string; text: string }> {
  for (const name of names) for (const text of textBlocks(join(folder, name))) yield { name, text };
}

export const judgeSecrets = (folder: string, replay: string): Claim[] => {
  const below = ["logs", "k6"].flatMap((name) =>
    existsSync(join(folder, name)) ? readdirSync(join(folder, name)).map((file) => `${name}/${file}`) : [],
  );
  const names = [...CAPTURED, ...below.sort()].filter((name) => existsSync(join(folder, name)));
  const facts: StageFacts = { ...bareFacts("run"), faults: true, texts: textsOf(folder, names) };
  const secrets = INVARIANTS.filter(({ id }) => id === "secrets-stay-secret");
  return judgeStage(secrets, facts, [], replay);
};
