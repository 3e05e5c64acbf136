import { existsSync } from "node:fs";
import { appendFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { startK6 } from "../drivers/k6/k6-process.ts";
import type { CallLine } from "../history/line.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import type { Printed } from "../workload/handover.ts";
import { mergeParts, readParts } from "./bodies.ts";
import { QUIET } from "./play-quietly.fixture.ts";

const binary = join(REPOSITORY, ".tools/k6");
const OF = 4;
/** Parts that begin further apart are not taken for parts of one run. */
const TOGETHER_US = 1_000_000;

let folder: string;
let stub: StubApi;
let merges = 0;

/** Plays a segment of the schedule by k6 alone, as a runner of a cluster does; returns the path of the file with its lines. */
const playPart = async (name: string, args: readonly string[], segments: number): Promise<string> => {
  const part = join(folder, name);
  const given = { FLOODGATE_TARGET: join(folder, "target.json"), SEGMENTS: `${segments}`, PART: part, SEED: "7" };
  const environment = { ...given, RATE: "80", DURATION: "2s", ARRIVALS: "poisson" };
  const script = join(REPOSITORY, "scenarios/catalog-reads.ts");
  await startK6(binary, ["run", "--quiet", "--no-color", "--log-format=json", ...args, script], environment, folder)
    .exited;
  return part;
};

type Made = Pick<Printed, "i" | "step" | "attempt" | "intendedUs">;
const callsIn = async (paths: readonly string[]): Promise<Made[]> => {
  const texts = await Promise.all(paths.map((path) => readFile(path, "utf8")));
  const calls = texts.flatMap((text) =>
    text
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Printed)
      .filter(({ type }) => type === "call"),
  );
  return calls.sort((a, b) => a.i - b.i);
};

const merge = (paths: readonly string[], name: string) =>
  mergeParts(
    {
      seed: 7,
      reports: folder,
      out: join(folder, `${name}-${merges++}`),
      replay: "npx floodgate report --merge",
      events: QUIET,
    },
    readParts(paths),
  );
const reachedOf = ({ document }: Awaited<ReturnType<typeof merge>>) =>
  document.claims.find(({ id }) => id === "reached/catalog-reads");

/** On a busy machine k6 may start so late, or leave out calls, that there is rightly no whole run: then all play again. */
const playedWhole = async (play: (tries: number) => Promise<string[]>): Promise<string[]> => {
  const deadline = Date.now() + 110_000;
  for (let tries = 0; ; tries += 1) {
    const played = await play(tries);
    const claim = reachedOf(await merge(played, "tried"));
    if (claim?.verdict === "pass") return played;
    if (Date.now() > deadline) throw new Error(`no try gave one whole run: ${claim?.reason}`);
  }
};

describe.skipIf(!existsSync(binary))("parts of one run", () => {
  let parts: string[];
  let whole: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "floodgate-parts-"));
    stub = await startStubApi();
    const target = stub.target({ name: "parts", permits: { load_max_rps: 200 } });
    await writeFile(join(folder, "target.json"), JSON.stringify(target));
    const sequence = `--execution-segment-sequence=${Array.from({ length: OF + 1 }, (_, n) => `${n}/${OF}`).join(",")}`;
    parts = await playedWhole((tries) =>
      Promise.all(
        Array.from({ length: OF }, (_, n) =>
          playPart(`${tries}-${n}.part`, [`--execution-segment=${n}/${OF}:${n + 1}/${OF}`, sequence], OF),
        ),
      ),
    );
    [whole] = (await playedWhole(async (tries) => [await playPart(`${tries}.whole`, [], 1)])) as [string];
  });
  afterAll(async () => {
    await stub.close();
    await rm(folder, { recursive: true, force: true });
  });

  test("four processes play the same calls as one, each at its own moment of the schedule", async () => {
    const [one, four] = [await callsIn([whole]), await callsIn(parts)];
    expect(one.length).toBeGreaterThan(100);
    const numbers = ({ i, step, attempt }: Made) => ({ i, step, attempt });
    expect(four.map(numbers)).toEqual(one.map(numbers));
  });

  test("joined, they are one whole run, and no credential is in a part", async () => {
    const asked = stub.asked.length;
    const result = await merge(parts, "joined");
    expect(reachedOf(result)).toMatchObject({ verdict: "pass" });
    // Its calls were all served, which shows nothing of the API; a merged run asks nothing of the deployment even so.
    expect([stub.asked.length, Object.keys(result.document.stages[0]?.by_outcome ?? {})]).toEqual([asked, ["200"]]);
    expect(result.document.stages[0]?.calls.sent).toBe((await callsIn([whole])).length);
    for (const path of parts) expect(await readFile(path, "utf8")).not.toMatch(/svc_(pk|sk|sess)_\w/);
  });

  test("a part that is missing, cut off or given twice leaves the run inconclusive", async () => {
    expect(reachedOf(await merge(parts.slice(1), "missing"))).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/calls of the schedule are in none of the 3 parts/),
    });
    const cut = join(folder, "cut.part");
    await writeFile(cut, (await readFile(parts[0] as string, "utf8")).slice(0, -600));
    expect(reachedOf(await merge([cut, ...parts.slice(1)], "cut"))?.reason).toMatch(/breaks off/);
    const [head = "", call = ""] = (await readFile(parts[0] as string, "utf8")).split("\n");
    await writeFile(cut, `${head}\n${call.slice(0, 40)}`);
    expect(reachedOf(await merge([cut, ...parts.slice(1)], "cut-at-once"))?.reason).toMatch(/breaks off/);
    expect(reachedOf(await merge([...parts, parts[0] as string], "twice"))?.reason).toMatch(/given twice/);
  });

  test("a shed below the cap fails the whole run, and accuses nobody while calls of a part are missing", async () => {
    const shedding = await Promise.all(
      parts.map(async (path, at) => {
        const lines = (await readFile(path, "utf8")).split("\n");
        const part = JSON.parse(lines[0] as string);
        const stated = { exclusive: true, shedding: "fixed", limits: { replicas: 1, global_in_flight: 400 } };
        lines[0] = JSON.stringify({ ...part, target: { ...part.target, ...stated } });
        const called = lines.findIndex((line) => line.startsWith('{"type":"call"'));
        const body = JSON.stringify({ error: "b2b_overloaded", message: "busy" });
        const refused = { ...JSON.parse(lines[called] as string), status: 429, body, retryAfter: "1" };
        if (at === 0) lines[called] = JSON.stringify(refused);
        const shed = join(folder, `shedding-${at}.part`);
        await writeFile(shed, lines.join("\n"));
        return shed;
      }),
    );
    const verdictOf = async (paths: readonly string[]) =>
      (await merge(paths, "shedding")).document.claims.find(({ id }) => id.startsWith("sheds-only-over-the-cap/"))
        ?.verdict;
    expect(await verdictOf(shedding)).toBe("fail");
    expect(await verdictOf(shedding.slice(0, 3))).toBe("inconclusive");
  });

  test("calls of two parts are in no surer order than the clocks of their machines, which may differ", async () => {
    const SHIFT_US = 3_000_000;
    const later = join(folder, "later.part");
    const text = await readFile(parts[0] as string, "utf8");
    await writeFile(
      later,
      text.replace(/\b1\d{15}\b/g, (us) => `${Number(us) + SHIFT_US}`),
    );
    const errorsIn = async (result: Awaited<ReturnType<typeof merge>>): Promise<number[]> => {
      const lines = (await readFile(join(result.folder.path, "history.ndjson"), "utf8")).trim().split("\n");
      return lines.map((line) => (JSON.parse(line) as CallLine).clock_error_us ?? 0);
    };
    const shifted = await merge([later, ...parts.slice(1)], "shifted");
    expect(reachedOf(shifted)).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/began .* apart by their clocks.*unless the clocks of their machines differ/),
    });
    expect(Math.min(...(await errorsIn(shifted)))).toBeGreaterThanOrEqual(SHIFT_US - TOGETHER_US);
    expect(Math.max(...(await errorsIn(await merge(parts, "as-they-were"))))).toBeLessThan(SHIFT_US - TOGETHER_US);
  });

  test("what a container logged beside the lines is passed over; what is no part is refused", async () => {
    const log = join(folder, "log.part");
    await writeFile(log, `time="2026" level=info\n${await readFile(whole, "utf8")}`);
    await appendFile(log, "  checks passed\n");
    expect(reachedOf(await merge([log], "log"))).toMatchObject({ verdict: "pass" });
    expect(() => readParts([join(folder, "target.json")])).toThrow(/expected a part of a distributed run/);
    expect(() => readParts([join(folder, "nothing.part")])).toThrow(/there is no such file/);
    const other = join(folder, "other.part");
    await writeFile(other, (await readFile(whole, "utf8")).replace('"seed":7', '"seed":8'));
    expect(() => readParts([whole, other])).toThrow(/parts of different runs: their seed differs/);
    for (const name of ["view", "target", "profile"]) {
      await writeFile(other, (await readFile(whole, "utf8")).replace(`"${name}":`, '"other":'));
      expect(() => readParts([other])).toThrow(/expected a part of a distributed run/);
    }
  });

  test("parts of a version that makes other calls, or does not say which, are refused", async () => {
    const other = join(folder, "other-version.part");
    const text = await readFile(whole, "utf8");
    for (const [was, is] of [
      [/"plan":\d+/, '"plan":7'],
      [/"plan":\d+,/, ""],
    ] as const) {
      await writeFile(other, text.replace(was, is));
      expect(() => readParts([other])).toThrow(/played by another version/);
    }
    expect(readParts([whole]).paths).toEqual([whole]);
  });
});
