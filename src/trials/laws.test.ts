/** The column of the laws against programs that keep the contract, and against those that do not. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { tryLaws } from "./laws.ts";
import type { Trial } from "./trials.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "laws-"));
});
afterAll(() => rm(folder, { recursive: true }));

const program = async (name: string, text: string): Promise<string> => {
  await writeFile(join(folder, name), text);
  return relative(ROOT, join(folder, name));
};

const brief = (trials: readonly Trial[]): unknown[] =>
  trials.map(({ mutant, stage, verdict, own, by }) => ({ mutant, stage, verdict, own, by }));

describe("the column of the laws", () => {
  test("takes a line for each law and mutant, and passes over whatever else is said", async () => {
    const says = await program(
      "says.mjs",
      `console.log("progress, not JSON");
       const law = "real-server";
       for (const mutant of process.argv.slice(3)) {
         const verdict = mutant === "spoilt" ? "killed" : "survived";
         console.log(JSON.stringify({ mutant, law, verdict, reason: "it differed", seed: 7, path: "1:2" }));
       }
       console.log(JSON.stringify({ mutant: "a-stranger", law, verdict: "killed", reason: "" }));`,
    );
    const trials = await tryLaws({ mutants: ["nobody", "spoilt", "harmless"], program: says });
    expect(brief(trials)).toEqual([
      { mutant: "nobody", stage: "real-server", verdict: "acquitted", own: true, by: [] },
      { mutant: "spoilt", stage: "real-server", verdict: "seen", own: false, by: ["real-server"] },
      { mutant: "harmless", stage: "real-server", verdict: "not-seen", own: false, by: [] },
    ]);
    expect(trials[1]?.reasons).toEqual(["real-server: killed: it differed (seed 7, path 1:2)"]);
  });

  test("takes a healthy platform that a law condemns for a false positive", async () => {
    const says = await program(
      "condemns.mjs",
      `console.log(JSON.stringify({ mutant: "nobody", law: "l", verdict: "killed", reason: "x", seed: 1, path: "" }))`,
    );
    expect(brief(await tryLaws({ mutants: ["nobody"], program: says }))).toMatchObject([{ verdict: "false-positive" }]);
  });

  test("says of those that were passed over that nothing is known, and how the program ended", async () => {
    const dies = await program("dies.mjs", `console.error("out of memory"); process.exit(3);`);
    const [trial] = await tryLaws({ mutants: ["spoilt"], program: dies });
    expect(trial).toMatchObject({ verdict: "undecided", own: false });
    expect(trial?.reasons[0]).toMatch(/ended \(3\) without a result for it; its last words: out of memory$/);
  });

  test("leaves out what no law looks at, but not the healthy platform", async () => {
    const silent = await program("silent.mjs", "");
    expect(brief(await tryLaws({ mutants: ["nobody", "spoilt"], program: silent }))).toMatchObject([
      { mutant: "nobody", verdict: "undecided", own: true },
    ]);
  });

  test("says that there is no such program", async () => {
    const [trial] = await tryLaws({ mutants: ["nobody"], program: "properties/not-there.ts" });
    expect(trial).toMatchObject({ verdict: "undecided", own: true });
    expect(trial?.reasons[0]).toContain("properties/not-there.ts is not there");
  });

  test("ends the program when it is told to stop", async () => {
    const waits = await program("waits.mjs", `setInterval(() => {}, 1000); console.error("here");`);
    const stop = new AbortController();
    const tried = tryLaws({ mutants: ["spoilt"], program: waits, signal: stop.signal });
    stop.abort();
    expect((await tried)[0]?.reasons[0]).toContain("ended (SIGKILL)");
  });
});
