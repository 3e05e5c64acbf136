/** `chaos --heal`: by name, with the target file that the user gives; whatever else stands in a run folder does nothing. */
import { type ChildProcess, spawn } from "node:child_process";
import {
  appendFileSync,
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { makeFault } from "../../faults/link-faults.ts";
import { proc } from "../../supervision/hidden-proc.fixture.ts";
import { openJournal, type Undo } from "../../supervision/journal.ts";
import { type ProcessId, RUN_MARK, startTimeOf } from "../../supervision/processes.ts";
import { FOLDER_MARK } from "../../supervision/supervisor.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import type { Target } from "../../target/target.ts";
import { targetName } from "../../target/target-file.ts";
import { startForTests, startUpstream, toxiproxyOrSkip, type Upstream } from "../../tools/toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "../../tools/toxiproxy-server.ts";
import { healLeftOpen } from "./left-open.ts";

vi.mock("node:fs", async (original) =>
  (await import("../../supervision/hidden-proc.fixture.ts")).hidingProc(await original()),
);

const MARK = "0123456789abcdef";
const target = (more: Partial<Target> = {}): Target => ({
  schema: "floodgate/target@1",
  name: "staging",
  base_url: "http://127.0.0.1:1/v1",
  ...more,
});
const named = targetName(target(), "/etc/staging.json");

let reports: string;
let children: ChildProcess[];
beforeEach(async () => {
  reports = await mkdtemp(join(tmpdir(), "floodgate-heal-"));
  children = [];
});
afterEach(() => {
  for (const child of children) child.kill("SIGKILL");
  rmSync(reports, { recursive: true, force: true });
});

const runFolder = (name: string): string => join(reports, "runs", name);

/** A run that was killed with these side effects open; its process is gone. */
const killedRun = (name: string, ...undos: Undo[]): string => runBy({ pid: 4_194_303, start: "1" }, name, undos);

const runBy = (process: ProcessId, name: string, undos: readonly Undo[]): string => {
  const folder = runFolder(name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const journal = openJournal(join(folder, "journal.ndjson"));
  const run = { ...process, mark: MARK };
  journal.about({ kind: "child", name: "the run itself", undo: { how: "nothing" }, run });
  for (const undo of undos) {
    const kind = undo.how === "remove-folder" ? "folder" : undo.how === "end-process" ? "child" : "fault";
    journal.done(journal.about({ kind, name: `${undo.how} of it`, undo }));
  }
  journal.close();
  return folder;
};

const sleeper = (env: Record<string, string> = {}) => {
  const child = spawn("sleep", ["600"], { detached: true, stdio: "ignore", env: { PATH: process.env.PATH, ...env } });
  children.push(child);
  const pid = child.pid as number;
  return { how: "end-process", pid, pgid: pid, start: startTimeOf(pid) as string, end_last: false } as const;
};

const said = (healed: Awaited<ReturnType<typeof healLeftOpen>>) =>
  healed.runs.flatMap(({ taken }) => taken).filter(({ name }) => name !== "the run itself");

describe("without a target file", () => {
  test("what is on somebody's deployment names the file that it needs, and is not whole", async () => {
    killedRun("one", {
      how: "command",
      fault: "limiter.stopped",
      commands: [`touch ${join(reports, "ran")}`],
      cwd: reports,
      target: named,
    });
    const healed = await healLeftOpen(reports);
    expect(healed.isWhole).toBe(false);
    expect(said(healed)).toMatchObject([
      {
        did: null,
        trouble:
          "needs the target file of staging: `npx floodgate chaos --heal --target FILE` (it was /etc/staging.json)",
        needs: { name: "staging" },
      },
    ]);
    expect(existsSync(join(reports, "ran"))).toBe(false);
  });

  test.skipIf(process.platform !== "linux")(
    "ours goes: by the run's mark, and no other's process or folder",
    async () => {
      const ours = sleeper({ [RUN_MARK]: MARK });
      const stray = sleeper({ [RUN_MARK]: MARK });
      const ofOtherRun = sleeper({ [RUN_MARK]: "fedcba9876543210" });
      const others = sleeper();
      const make = (path: string, mark?: string): string => {
        mkdirSync(path, { recursive: true, mode: 0o700 });
        if (mark !== undefined) writeFileSync(join(path, FOLDER_MARK), mark);
        return path;
      };
      const inRun = make(join(runFolder("one"), "platform"), MARK);
      const temporary = make(join(reports, "floodgate-k6-1"), MARK);
      const unmarked = make(join(reports, "floodgate-k6-2"));
      const ofOther = make(join(reports, "floodgate-k6-3"), "fedcba9876543210");
      const elsewhere = make(join(reports, "home"), MARK);
      const linked = join(reports, "floodgate-k6-4");
      symlinkSync(elsewhere, linked);
      const folders = [inRun, temporary, unmarked, ofOther, elsewhere, linked];
      killedRun("one", ours, ofOtherRun, others, ...folders.map((path) => ({ how: "remove-folder", path }) as const));

      const healed = await healLeftOpen(reports);
      const isAlive = ({ pid, start }: { pid: number; start: string }): boolean => startTimeOf(pid) === start;
      await waitUntil(async () => !isAlive(ours) && !isAlive(stray), { forMs: 30_000, pollMs: 20 });
      expect([ours, stray, ofOtherRun, others].map(isAlive)).toEqual([false, false, true, true]);
      expect(folders.map((path) => existsSync(path))).toEqual([false, false, true, true, true, true]);
      expect(healed.isWhole).toBe(false);
      expect(said(healed).filter(({ trouble }) => trouble !== null)).toHaveLength(6);
    },
  );

  test.skipIf(process.platform !== "linux")(
    "a stopped process of an older version's journal is ended, or named",
    async () => {
      const ours = sleeper({ [RUN_MARK]: MARK });
      const others = sleeper();
      const journal = join(killedRun("one"), "journal.ndjson");
      for (const [id, { pid, start }] of Object.entries({ ours, others })) {
        process.kill(pid, "SIGSTOP");
        const entry = { id, phase: "done", kind: "fault", name: `${id}.stopped`, undo: { how: "signal", pid, start } };
        appendFileSync(journal, `${JSON.stringify(entry)}\n`);
      }
      const left = { did: null, trouble: expect.stringContaining("does not carry the mark of this run: left alone") };
      expect(said(await healLeftOpen(reports))).toMatchObject([
        { name: "ours.stopped", did: "ended", trouble: null },
        { name: "others.stopped", ...left },
      ]);
      expect(startTimeOf(ours.pid)).not.toBe(ours.start);
      expect(said(await healLeftOpen(reports))).toMatchObject([{ name: "others.stopped", ...left }]);
    },
  );

  describe.skipIf(process.platform !== "linux")("where nothing of /proc can be read", () => {
    beforeEach(() => {
      proc.isHidden = true;
    });
    afterEach(() => {
      proc.isHidden = false;
    });

    test("a run whose process lives is left to heal by itself", async () => {
      const { pid, start } = sleeper();
      const command = { how: "command", fault: "limiter.stopped", commands: ["exit 9"], cwd: reports, target: named };
      runBy({ pid, start: start ?? "gone" }, "one", [command as Undo]);
      expect((await healLeftOpen(reports)).runs).toMatchObject([{ running: ["command of it"], taken: [] }]);
    });

    test("a process of a killed run that may still live stays open in the journal", async () => {
      killedRun("one", { ...sleeper(), start: "7" });
      const left = { did: null, trouble: expect.stringContaining("does not carry the mark of this run: left alone") };
      expect(said(await healLeftOpen(reports))).toMatchObject([left]);
    });
  });

  test("a run that could not look up its own start time is left alone while a process has its number", async () => {
    const { pid } = sleeper();
    const command = { how: "command", fault: "limiter.stopped", commands: ["exit 9"], cwd: reports, target: named };
    runBy({ pid, start: "gone" }, "one", [command as Undo]);
    expect((await healLeftOpen(reports)).runs).toMatchObject([{ running: ["command of it"], taken: [] }]);
  });

  test("a lock that was left is for the next run to remove, and nothing is said of it", async () => {
    const lock = join(reports, "floodgate-x.lock");
    writeFileSync(lock, "");
    killedRun("one", { how: "remove-lock", path: lock });
    expect(await healLeftOpen(reports)).toMatchObject({ isWhole: true });
    expect(existsSync(lock)).toBe(true);
  });
});

describe("with the target file", () => {
  test("its own commands run as they are written, keys and all, in its folder", async () => {
    const key = `svc_sk_test_${"a1B2".repeat(8)}`;
    const faults = { "limiter.stopped": { inject: ["false"], heal: [`printf '%s' '${key}' > healed; pwd > where`] } };
    const undo = { how: "command", fault: "limiter.stopped", commands: ["exit 9"], cwd: "/", target: named } as const;
    killedRun("one", { how: "all", undos: [undo, { how: "nothing" }] });
    const given = [{ target: target({ faults }), file: join(reports, "target.json") }];
    expect(await healLeftOpen(reports, { given })).toMatchObject({ isWhole: true });
    expect(readFileSync(join(reports, "healed"), "utf8")).toBe(key);
    expect(readFileSync(join(reports, "where"), "utf8").trim()).toBe(reports);
    expect(await healLeftOpen(reports, { given })).toMatchObject({ isWhole: true, runs: [] });
  });

  test("what belongs to another deployment, or is not in the file any more, is left and said", async () => {
    const undo = (fault: string, base_url: string): Undo => ({
      ...{ how: "command", fault, commands: ["exit 9"], cwd: "/" },
      target: { base_url, name: "other" },
    });
    killedRun("one", undo("limiter.stopped", "http://127.0.0.1:2/v1"), undo("keys.stopped", named.base_url));
    const faults = { "limiter.stopped": { inject: ["false"], heal: [`touch ${join(reports, "ran")}`] } };
    const given = [{ target: target({ faults }), file: "target.json" }];
    const healed = await healLeftOpen(reports, { given });
    expect(said(healed).map(({ trouble }) => trouble)).toEqual([
      'target.json has no faults["keys.stopped"] any more',
      expect.stringContaining("needs the target file of other"),
    ]);
    expect(existsSync(join(reports, "ran"))).toBe(false);
    expect(healed.isWhole).toBe(false);
  });

  test("an operator's change is put back at the control planes of the file, known fields alone", async () => {
    const asked: unknown[] = [];
    let state: Record<string, unknown> = { slots: 1, sessions: "disabled" };
    const server: Server = createServer(async (request, response) => {
      let text = "";
      for await (const chunk of request.setEncoding("utf8")) text += chunk;
      if (request.method === "PATCH") {
        asked.push(JSON.parse(text));
        state = { ...state, ...(JSON.parse(text) as object) };
      }
      response.end(JSON.stringify(state));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const was = { slots: 8, sessions: "enabled", upstreams: "http://evil" } as Record<string, number | string>;
    const planes = [{ plane: "api", at: 0, was, url: "http://127.0.0.1:9" }] as const;
    killedRun("one", { how: "deployment", planes, target: named });
    const given = [{ target: target({ control: { api: [url] } }), file: "target.json" }];
    expect(await healLeftOpen(reports, { given })).toMatchObject({ isWhole: true });
    expect(asked).toEqual([{ slots: 8, sessions: "enabled" }]);
    server.closeAllConnections();
    server.close();
  });
});

describe("a journal that somebody else may have written", () => {
  const fault = "limiter.stopped";
  const faults = { [fault]: { inject: ["false"], heal: ["touch ran"] } };
  const healed = () =>
    healLeftOpen(reports, { given: [{ target: target({ faults }), file: join(reports, "t.json") }] });
  const planted = (): string =>
    killedRun("one", { how: "command", fault, commands: ["touch ran"], cwd: "/", target: named });
  const expectNothing = async (why: string): Promise<void> => {
    const { runs, isWhole } = await healed();
    expect(isWhole).toBe(false);
    expect(runs).toMatchObject([{ taken: [{ kind: "journal", trouble: expect.stringContaining(why) }] }]);
    expect(existsSync(join(reports, "ran"))).toBe(false);
  };

  test("writable for others: nothing is done", async () => {
    chmodSync(join(planted(), "journal.ndjson"), 0o622);
    await expectNothing("may be written by others");
  });

  test("in a folder that is writable for others: nothing is done", async () => {
    chmodSync(planted(), 0o777);
    await expectNothing("may be written by others");
  });

  test("a link, or in a folder that is one: nothing is done", async () => {
    const real = planted();
    const elsewhere = join(reports, "elsewhere");
    rmSync(elsewhere, { recursive: true, force: true });
    mkdirSync(elsewhere, { mode: 0o700 });
    writeFileSync(join(elsewhere, "journal.ndjson"), readFileSync(join(real, "journal.ndjson")), { mode: 0o600 });
    rmSync(join(real, "journal.ndjson"));
    symlinkSync(join(elsewhere, "journal.ndjson"), join(real, "journal.ndjson"));
    await expectNothing("is a link");
    rmSync(real, { recursive: true });
    symlinkSync(elsewhere, real);
    await expectNothing("is a link");
  });

  test.skipIf(process.geteuid?.() !== 0)("of another user, for root as well: nothing is done", async () => {
    chownSync(join(planted(), "journal.ndjson"), 65_534, 65_534);
    await expectNothing("belongs to the user with the number 65534");
  });
});

const path = toxiproxyOrSkip();
describe.skipIf(path === null)("on the proxies of the target file", () => {
  let server: ToxiproxyServer;
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream(0);
    server = await startForTests(path as string);
    await server.toxiproxy.createProxy({ name: "a-stranger", upstream: upstream.address });
    await makeFault("refused", { budgetMs: 100 }).put(server.toxiproxy.proxy("a-stranger"));
  });
  afterAll(async () => {
    await server?.stop();
    await upstream?.close();
  });
  // A test that failed may leave it broken, and each has one of its own, at another port.
  beforeEach(() => server.toxiproxy.createProxy({ name: "theirs", upstream: upstream.address }));
  afterEach(async () => {
    for (const name of ["theirs", "dead"]) await server.toxiproxy.removeProxy(name);
  });
  const healed = (proxies: Record<string, string> = { limiter: "theirs" }) => {
    const toxiproxy = { api_url: server.apiUrl, proxies };
    return healLeftOpen(reports, { given: [{ target: target({ toxiproxy }), file: "target.json" }] });
  };

  test.each(["refused", "reply-lost", "trickle", "flapping"])(
    "%s of a machine that is gone, without a run folder, is taken off by its name",
    async (name) => {
      const proxy = server.toxiproxy.proxy("theirs");
      const fault = makeFault(name, { budgetMs: 100 });
      await fault.put(proxy);
      // What toggles a link goes with its process.
      if (name === "flapping") await fault.take(proxy);
      if (name === "flapping") await makeFault("refused", { budgetMs: 100 }).put(proxy);
      expect(await healed()).toMatchObject({ isWhole: true, proxies: [{ name: "theirs", trouble: null }] });
      expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [] });
      expect((await server.toxiproxy.proxy("a-stranger").read()).enabled, "a proxy of no target").toBe(false);
    },
  );

  test("one that is disabled and shows nothing of ours is left so, and is not called whole", async () => {
    const proxy = server.toxiproxy.proxy("theirs");
    await proxy.setEnabled(false);
    expect(await healed()).toMatchObject({
      isWhole: false,
      proxies: [{ trouble: expect.stringContaining("is disabled") }],
    });
    expect((await proxy.read()).enabled).toBe(false);
    await proxy.setEnabled(true);
    expect(await healed()).toMatchObject({ isWhole: true, proxies: [{ did: "", trouble: null }] });
  });

  test("one whose upstream is not there is not called whole", async () => {
    await server.toxiproxy.createProxy({ name: "dead", upstream: "127.0.0.1:1" });
    expect(await healed({ limiter: "dead" })).toMatchObject({
      isWhole: false,
      proxies: [{ trouble: expect.stringContaining("nobody answers at its upstream") }],
    });
  });

  test("one that is not there, and a toxiproxy that does not answer, are said", async () => {
    expect((await healed({ limiter: "nobody" })).isWhole).toBe(false);
    const toxiproxy = { api_url: "http://127.0.0.1:1", proxies: { limiter: "x" } };
    const given = [{ target: target({ toxiproxy }), file: "target.json" }];
    expect((await healLeftOpen(reports, { given })).isWhole).toBe(false);
  });
});
