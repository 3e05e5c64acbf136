/** Exit code 1 is a verdict. What is thrown, in whatever layer of a run, ends with another code and with a document that does not say pass. */
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { RunContext } from "../deployments/deployment.ts";
import { claimOf } from "../history/claim.fixture.ts";
import { bareFacts, type RunDocument, type StageOutcome } from "../history/run-document.ts";
import { UsageError } from "../supervision/user-file.ts";
import { inTime } from "../supervision/waiting.ts";
import { EXIT, exitCodeOf, worstExit } from "./exit-codes.ts";
import { QUIET } from "./play-quietly.fixture.ts";
import { recordRun } from "./recorded-run.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-exit-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const request = () => ({
  profile: "test",
  seed: 1,
  reports: folder,
  out: join(folder, "run"),
  replay: "-",
  targets: [],
  events: QUIET,
});

const held = claimOf("held/stage");
const broken = claimOf("broken/stage", { verdict: "fail" });

const stageWith = (claims: StageOutcome["claims"]): StageOutcome => ({
  summary: {
    name: "stage",
    driver: "none",
    duration_ms: 1,
    calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
    by_outcome: {},
  },
  facts: bareFacts("stage"),
  claims,
  measurements: [],
  faults: [],
  notes: [],
});

const written = (): RunDocument => JSON.parse(readFileSync(join(folder, "run", "run.json"), "utf8")) as RunDocument;

type Layer = [layer: string, body: (context: RunContext) => Promise<void>];

/** Each after a claim that holds, so that nothing but the error keeps the run from passing. */
const LAYERS: Layer[] = [
  [
    "the body",
    async () => {
      throw new TypeError("x is not a function");
    },
  ],
  [
    "a stage that cannot be written down",
    async (context) => {
      const facts = { ...bareFacts("odd"), odd: 1n };
      await context.addStage({ ...stageWith([]), facts });
    },
  ],
  ["a line that cannot be written down", async ({ line }) => line({ type: "mark", odd: 1n } as never)],
  [
    "the journal",
    async ({ journal }) => {
      journal.close();
      journal.about({ kind: "fault", name: "a fault", undo: { how: "nothing" } });
    },
  ],
  [
    "a child that cannot be started",
    async ({ supervisor }) =>
      void (await supervisor.start({ name: "a part", command: "/no/such/program", ends: "by-signal" })),
  ],
  [
    "an undo",
    async ({ supervisor }) =>
      void supervisor.registerUndo("an undo", async () => {
        throw new Error("it cannot be taken back");
      }),
  ],
  ["a claim that no judge could have made", async ({ add }) => add({ claims: [null as never] })],
  [
    "a report that cannot be written",
    async ({ folder: { path } }) => void mkdirSync(join(path, "report.html", "x"), { recursive: true }),
  ],
  [
    "a run.json that cannot be replaced",
    async ({ folder: { path } }) => {
      rmSync(join(path, "run.json"));
      mkdirSync(join(path, "run.json", "x"), { recursive: true });
    },
  ],
  ["a folder that is gone", async ({ folder: { path } }) => rmSync(path, { recursive: true })],
];

describe("exit code 1 comes from a claim and from nothing else", () => {
  test.each(LAYERS)("what is thrown by %s ends with 4, and run.json does not say pass", async (_layer, body) => {
    const ended = recordRun(request(), async (context) => {
      await context.addStage(stageWith([held]));
      await body(context);
    });
    const code = await ended.then(
      ({ document }) => {
        expect(document.verdict).toBe("inconclusive");
        return document.exit_code;
      },
      (error: unknown) => exitCodeOf(error),
    );
    expect(code).toBe(EXIT.inconclusive);
    let said: string | null = null;
    try {
      said = written().verdict;
    } catch {
      // Where it could not be written, nobody reads a verdict there.
    }
    expect(said).not.toBe("pass");
  });

  test("a run in which nothing is thrown passes by the same claim, and fails by a broken one", async () => {
    const passed = await recordRun(request(), async (context) => context.addStage(stageWith([held])));
    expect(passed.document.exit_code).toBe(EXIT.pass);
    rmSync(join(folder, "run"), { recursive: true });
    const failed = await recordRun(request(), async (context) => {
      await context.addStage(stageWith([broken]));
      throw new Error("and then it broke off");
    });
    expect([failed.document.exit_code, written().verdict]).toEqual([EXIT.fail, "fail"]);
  });

  test("a mistake of the user inside of a run keeps its code", async () => {
    const { document } = await recordRun(request(), async () => {
      throw new UsageError("it is not there");
    });
    expect([document.exit_code, document.verdict]).toEqual([EXIT.usage, "inconclusive"]);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s reaches the body of a run, which ends in order", async (signal, code) => {
    let heard = false;
    const { document } = await recordRun(request(), async (context) => {
      const stopped = once(context.signal, "abort");
      process.emit(signal, signal);
      heard = (await inTime(stopped, 10_000)) !== "late";
    });
    expect([heard, document.exit_code, document.verdict]).toEqual([true, code, "inconclusive"]);
  });

  test("a place that cannot be used inside of a run is named", async () => {
    const place = join(folder, "file", "x");
    writeFileSync(join(folder, "file"), "");
    const { document } = await recordRun(request(), async () => mkdirSync(place));
    expect(document.claims.find(({ id }) => id === "run/completed")?.reason).toBe(
      `${place}: a part of the path is a file, not a folder (ENOTDIR)`,
    );
  });

  test("no error has code 1, whatever it says of itself", () => {
    const pretends = Object.assign(new Error("x"), { name: "UsageErrorOfOthers", exitCode: 1 });
    const thrown = [pretends, new Error("x"), "a text", null, Object.assign(new Error("x"), { exitCode: 1, code: 1 })];
    expect(thrown.map(exitCodeOf)).toEqual(thrown.map(() => EXIT.inconclusive));
  });

  test("of several codes the order of the interface decides, and a signal comes first", () => {
    expect([worstExit(4, 1), worstExit(3, 1), worstExit(0, 4), worstExit(5, 2), worstExit(1, 143)]).toEqual([
      1, 3, 4, 5, 143,
    ]);
  });
});

describe("a run folder that cannot be used", () => {
  const outcome = (out: string): Promise<[number, string]> =>
    recordRun({ ...request(), out }, async () => undefined).then(
      ({ document }) => [document.exit_code, ""],
      (error: Error) => [exitCodeOf(error), error.message],
    );

  test.each<[what: string, out: () => string, sentence: RegExp]>([
    ["a folder that is not empty", () => folder, /is not an empty folder/],
    ["a file", () => join(folder, "file"), /is not an empty folder/],
    ["a place below a file", () => join(folder, "file", "x"), /a part of the path is a file.*ENOTDIR/],
    ["a place below a device", () => "/dev/null/x", /a part of the path is a file.*ENOTDIR/],
    ["a place in /proc", () => "/proc/x/y", /ENOENT/],
    ["a place in /sys", () => "/sys/x/y", /\(E(?:PERM|ACCES|ROFS)\)/],
    ["a name that is too long", () => join(folder, "n".repeat(300)), /the name is too long \(ENAMETOOLONG\)/],
    ["links in a circle", () => join(folder, "circle", "x"), /its links lead in a circle \(ELOOP\)/],
  ])("%s is a sentence with exit code 2, at once", async (_what, out, sentence) => {
    writeFileSync(join(folder, "file"), "");
    symlinkSync(join(folder, "circle"), join(folder, "circle"));
    const [code, said] = await outcome(out());
    expect(said).toMatch(sentence);
    expect(said).toMatch(/^--out /);
    expect(code).toBe(EXIT.usage);
  });
});

describe("a disk that is full", () => {
  /** A file system of 400 KiB; `null` where this user may not mount one. */
  const smallDisk = (): string | null => {
    const path = join(folder, "disk");
    mkdirSync(path);
    try {
      execFileSync("mount", ["-t", "tmpfs", "-o", "size=400k", "tmpfs", path], { stdio: "pipe" });
      return path;
    } catch {
      return null;
    }
  };

  test("ends with 4, and run.json says so and what of it could be judged", async (context) => {
    const disk = smallDisk();
    if (disk === null) return context.skip("SKIPPED: only root can mount a small disk");
    try {
      const { document } = await recordRun({ ...request(), out: join(disk, "run") }, async ({ addStage, line }) => {
        await addStage(stageWith([held]));
        for (let i = 0; i < 20_000; i++) line({ type: "mark", stage: "stage", name: "n".repeat(50), at_us: i });
      });
      const onDisk = JSON.parse(readFileSync(join(disk, "run", "run.json"), "utf8")) as RunDocument;
      for (const { verdict, exit_code, claims } of [document, onDisk]) {
        expect([verdict, exit_code]).toEqual(["inconclusive", EXIT.inconclusive]);
        expect(claims.filter(({ id }) => id === "run/reported")).toMatchObject([
          { reason: expect.stringContaining("the disk is full (ENOSPC)") },
        ]);
        expect(claims).toContainEqual(expect.objectContaining({ id: held.id, verdict: "pass" }));
      }
      expect(onDisk.finished_at).toBe(document.finished_at);
      expect(existsSync(join(disk, "run", ".room"))).toBe(false);
    } finally {
      execFileSync("umount", [disk]);
    }
  });

  test.for(["still", "no longer"])(
    "is told beside another error, which it may be behind: %s full",
    async (now, context) => {
      const disk = smallDisk();
      if (disk === null) return context.skip("SKIPPED: only root can mount a small disk");
      try {
        const { document } = await recordRun({ ...request(), out: join(disk, "run") }, async () => {
          expect(() => writeFileSync(join(disk, "other"), Buffer.alloc(1 << 20))).toThrow("ENOSPC");
          if (now === "no longer") rmSync(join(disk, "other"));
          throw new Error("status 500");
        });
        const roomy = await recordRun(request(), async () => {
          throw new Error("status 500");
        });
        const [told, other] = [document, roomy.document].map(({ claims }) =>
          claims.find(({ id }) => id === "run/completed"),
        );
        expect(told?.reason).toBe("status 500; the disk of the run folder is full");
        expect(other?.reason).toBe("status 500");
      } finally {
        execFileSync("umount", [disk]);
      }
    },
  );
});
