import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { WATCHDOG_PROCESS } from "../faults/watchdog-process.ts";
import { startUpstream, toxiproxyOrSkip } from "../tools/toxiproxy.fixture.ts";
import { startToxiproxy } from "../tools/toxiproxy-server.ts";
import { runShellCommand, signalInWords, spawnChild } from "./child.ts";
import { type Journal, openEffects, openJournal, RUN_ITSELF, readJournal } from "./journal.ts";
import { startTimeOf } from "./processes.ts";
import { redactor } from "./redaction.ts";
import { listenForStop } from "./stop-signals.ts";
import { openSupervisor, type Supervisor } from "./supervisor.ts";
import { pause, waitUntil } from "./waiting.ts";

let folder: string;
let journal: Journal;
let supervisor: Supervisor;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-supervision-"));
  journal = openJournal(join(folder, "journal.ndjson"));
  supervisor = await openSupervisor({ journal, watchdog: null, stopMs: 300 });
});
afterEach(async () => {
  await supervisor.close();
  journal.close();
  rmSync(folder, { recursive: true });
});

const node = (script: string) => ({ command: process.execPath, args: ["-e", script] });
const WAITS = "console.log('up'); setInterval(() => {}, 1000);";
const STUBBORN = `process.on("SIGTERM", () => {}); ${WAITS}`;
const open = () => openEffects(readJournal(journal.path).entries).filter(({ name }) => name !== RUN_ITSELF);
const sleeper = (name: string) => ({ name, command: "sleep", args: ["600"], ends: "by-signal" }) as const;

describe("the last words of a command", () => {
  const SECRET = "hunter2-QQQQQQQQ-SECRETTAIL0123456789";
  const run = (command: string, onOutput?: (text: string) => void): Promise<unknown> =>
    runShellCommand(command, { what: "heal command", signal: AbortSignal.timeout(20_000), onOutput }).catch(
      (error: Error) => error.message,
    );

  test("a secret is masked wherever the words are cut, also where the output is heard", async () => {
    redactor.register(SECRET);
    for (const after of [250, 270, 280, 290]) {
      const words = `${SECRET} ${"z".repeat(after)}`;
      const said = await run(`printf '%s' '${words}' >&2; exit 3`, after === 280 ? () => undefined : undefined);
      expect(said).toMatch(/^the heal command failed \(exit code 3\): .*z{250}/);
      expect(said).not.toContain("TAIL0123456789");
    }
  });

  test("the last lines are quoted, also one without an end", async () => {
    expect(await run("echo first >&2; echo; printf 'é last' >&2; exit 4")).toBe(
      "the heal command failed (exit code 4): first\né last",
    );
    expect(await run("exit 5")).toBe("the heal command failed (exit code 5)");
  });
});

describe("what others started and made", () => {
  test("an adopted process is ended with the run, and struck off when it has ended by itself", async () => {
    const children = ["600", "0"].map((s) => spawn("sleep", [s], { detached: true, stdio: "ignore" }));
    const [long, short] = children as [(typeof children)[0], (typeof children)[0]];
    const pid = long.pid as number;
    supervisor.adopt("long", pid);
    const forget = supervisor.adopt("short", short.pid as number);
    expect(open()).toMatchObject([
      { kind: "child", name: "short" },
      { kind: "child", name: "long", undo: { how: "end-process", pid, pgid: pid, start: startTimeOf(pid) } },
    ]);
    forget();
    expect(open().map(({ name }) => name)).toEqual(["long"]);
    expect(await supervisor.close()).toEqual([]);
    expect(startTimeOf(pid)).toBeNull();
    expect(open()).toEqual([]);
  });

  test("a folder of secrets is written down before it is filled, and removed with the run", async () => {
    const path = mkdtempSync(join(tmpdir(), "floodgate-owned-"));
    supervisor.ownFolder("secrets", path);
    expect(open()).toMatchObject([{ kind: "folder", name: "secrets", undo: { how: "remove-folder", path } }]);
    writeFileSync(join(path, "secret"), "x");
    expect(await supervisor.close()).toEqual([]);
    expect(existsSync(path)).toBe(false);
    expect(open()).toEqual([]);
  });
});

describe("a child", () => {
  test("is written down with number, start time and group, and struck off when it has ended", async () => {
    const child = await supervisor.start(sleeper("sleeper"));
    expect(open()).toMatchObject([
      {
        kind: "child",
        name: "sleeper",
        undo: { how: "end-process", pid: child.pid, pgid: child.pid, start: startTimeOf(child.pid) },
      },
    ]);
    expect(await child.stop()).toBe("ended");
    expect(await child.exited).toEqual({ code: null, signal: "SIGTERM" });
    expect(startTimeOf(child.pid)).toBeNull();
    expect(open()).toEqual([]);
  });

  test("that ignores SIGTERM is killed after its grace", async () => {
    const child = await supervisor.start({ name: "stubborn", ...node(STUBBORN), ends: "by-signal", graceMs: 100 });
    await child.waitForLine(/^up$/, { deadlineMs: 10_000 });
    expect(await child.stop()).toBe("killed");
    expect(startTimeOf(child.pid)).toBeNull();
  });

  test("that was stopped can still be ended in order", async () => {
    const child = await supervisor.start(sleeper("stopped"));
    child.signal("SIGSTOP");
    expect(open().map((effect) => effect.kind)).toEqual(["signal", "child"]);
    child.signal("SIGCONT");
    expect(open().map((effect) => effect.kind)).toEqual(["child"]);
    child.signal("SIGSTOP");
    expect(await child.stop()).toBe("ended");
    expect(open()).toEqual([]);
  });

  test("a signal to it stands in the journal, and one that is gone takes none", async () => {
    const child = await supervisor.start(sleeper("killed"));
    child.signal("SIGKILL");
    expect(await child.exited).toEqual({ code: null, signal: "SIGKILL" });
    const { entries } = readJournal(journal.path);
    expect(entries.filter(({ kind }) => kind === "signal")).toMatchObject([
      { phase: "about", name: "killed", detail: "SIGKILL" },
      { phase: "undone" },
    ]);
    expect(() => child.signal("SIGKILL")).toThrow("is gone and cannot take SIGKILL");
    expect(open()).toEqual([]);
  });

  test("that cannot be written down is not left running", async () => {
    const done = journal.done.bind(journal);
    let pid = 0;
    journal.done = (_, more) => {
      pid = more?.undo?.how === "end-process" ? more.undo.pid : 0;
      throw new Error("no space left");
    };
    await expect(supervisor.start(sleeper("unwritten"))).rejects.toThrow("no space left");
    journal.done = done;
    await waitUntil(async () => startTimeOf(pid) === null, { forMs: 30_000, pollMs: 10 });
    expect([pid > 0, startTimeOf(pid)]).toEqual([true, null]);
  });

  test("takes its own children with it, also when it has ended before them", async () => {
    const script = `const { spawn } = require("node:child_process");
      console.log("grandchild " + spawn("sleep", ["600"], { stdio: "ignore" }).pid); process.exit(0);`;
    const child = await supervisor.start({ name: "parent", ...node(script), ends: "by-signal" });
    const line = await child.waitForLine(/^grandchild/, { deadlineMs: 10_000 });
    await child.exited;
    expect(startTimeOf(Number(line.split(" ")[1]))).not.toBeNull();
    expect(open()).toHaveLength(1);
    await supervisor.close();
    expect(startTimeOf(Number(line.split(" ")[1]))).toBeNull();
    expect(open()).toEqual([]);
  });

  test("of ours ends when its stdin does", async () => {
    const script = "process.stdin.resume().on('end', () => process.exit(7)); console.log('up');";
    const child = await supervisor.start({ name: "ours", ...node(script), ends: "at-stdin-eof" });
    await child.waitForLine(/^up$/, { deadlineMs: 10_000 });
    child.stdin?.end();
    expect(await child.exited).toEqual({ code: 7, signal: null });
    await waitUntil(async () => open().length === 0, { forMs: 30_000, pollMs: 10 });
    expect(open()).toEqual([]);
  });

  test("has its output masked in files and lines, with the secrets of its environment", async () => {
    const file = join(folder, "out.log");
    const child = await supervisor.start({
      name: "talker",
      ...node(
        "process.stdout.write('my secret is ' + process.env.FLOODGATE_SESSION_SECRET); console.error('svc_sk_live_abcdefghijklmnop');",
      ),
      env: { FLOODGATE_SESSION_SECRET: "correct horse" },
      ends: "by-signal",
      files: { stdout: file, stderr: `${file}.err` },
    });
    const find = async (match: RegExp, from: "stdout" | "stderr") =>
      await child.waitForLine(match, { deadlineMs: 10_000, from }).catch((error: Error) => error.message);
    expect(await find(/mnop/, "stderr")).toBe("svc_sk_live_...mnop");
    expect(await find(/secret/, "stdout")).toBe("my secret is [masked]");
    for (const [path, line] of [
      [file, "my secret is [masked]\n"],
      [`${file}.err`, "svc_sk_live_...mnop\n"],
    ] as const) {
      await waitUntil(async () => readFileSync(path, "utf8") !== "", { forMs: 30_000, pollMs: 10 });
      expect(readFileSync(path, "utf8")).toBe(line);
    }
  });

  test("a line that was said before is found, one that is not said is told with what was", async () => {
    const child = await supervisor.start({ name: "talker", ...node(WAITS), ends: "by-signal" });
    await child.waitForLine(/^up$/, { deadlineMs: 10_000 });
    expect(await child.waitForLine(/^up$/, { deadlineMs: 10 })).toBe("up");
    await expect(child.waitForLine(/^never$/, { deadlineMs: 50 })).rejects.toThrow(
      "talker was not ready within 50 ms; its last lines: up",
    );
    const waiting = expect(child.waitForLine(/^never$/, { deadlineMs: 10_000 })).rejects.toThrow(
      "talker ended (SIGTERM)",
    );
    await child.stop();
    await waiting;
  });

  test.each(["at-stdin-eof", "by-signal"] as const)(
    "that cannot be started is told in a sentence (%s)",
    async (ends) => {
      const starting = supervisor.start({ name: "nobody", command: "/no/such/program", ends });
      await expect(starting).rejects.toThrow("could not start nobody (/no/such/program): there is no such program");
      expect(open()).toEqual([]);
    },
  );
});

describe("the end of a run", () => {
  test("undoes the newest first, then ends children, those that others need last; a failed undo stops nothing", async () => {
    const order: string[] = [];
    const first = await supervisor.start({ ...sleeper("carrier"), endLast: true });
    const second = await supervisor.start(sleeper("load"));
    void first.exited.then(() => order.push("carrier"));
    void second.exited.then(() => order.push("load"));
    supervisor.registerUndo("one", async () => void order.push("one"));
    supervisor.registerUndo("two", () => Promise.reject(new Error("wedged")));
    supervisor.registerUndo("three", () => new Promise(() => {}), 50);
    const forget = supervisor.registerUndo("four", async () => void order.push("four"));
    forget();
    const troubles = await supervisor.close();
    expect(troubles).toEqual(["three: not done within 50 ms", "two: wedged"]);
    expect(order).toEqual(["one", "load", "carrier"]);
    expect(supervisor.pending()).toEqual([]);
  });

  test("an exception in the body takes everything back and comes through", async () => {
    const order: string[] = [];
    const body = supervisor.within(new AbortController().signal, async () => {
      await supervisor.start(sleeper("load"));
      supervisor.registerUndo("heal", async () => void order.push("heal"));
      throw new Error("in the middle");
    });
    await expect(body).rejects.toThrow("in the middle");
    expect(order).toEqual(["heal"]);
    expect(open()).toEqual([]);
  });

  test("a body that does not hear the stop does not hold the healing up", async () => {
    const order: string[] = [];
    supervisor.registerUndo("heal", async () => void order.push("heal"));
    const stop = listenForStop(() => {});
    const body = supervisor.within(stop.signal, () => new Promise(() => {}));
    process.emit("SIGTERM", "SIGTERM");
    await expect(body).rejects.toThrow("stopped before the end");
    expect(order).toEqual(["heal"]);
    stop.release();
  });

  test("a body whose stop came earlier does not begin", async () => {
    let hasBegun = false;
    const body = supervisor.within(AbortSignal.abort(), async () => {
      hasBegun = true;
    });
    await expect(body).rejects.toThrow("stopped before the beginning");
    expect([hasBegun, supervisor.signal.aborted]).toEqual([false, true]);
  });

  test("a second signal is heard with what is still to do, and does not end the healing", async () => {
    const heard: string[] = [];
    let healed = false;
    const stop = listenForStop((signal, times) => heard.push(`${signal} ${times} ${supervisor.pending().join()}`));
    supervisor.registerUndo("slow heal", async () => {
      await pause(50);
      healed = true;
    });
    const body = supervisor.within(
      stop.signal,
      (signal) => new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve())),
    );
    process.emit("SIGINT", "SIGINT");
    process.emit("SIGINT", "SIGINT");
    await body;
    stop.release();
    expect(heard).toEqual(["SIGINT 1 slow heal", "SIGINT 2 slow heal"]);
    expect(healed).toBe(true);
  });

  test("a child that is being started at that very moment is ended too", async () => {
    const starting = supervisor.start(sleeper("late"));
    await supervisor.close();
    expect(startTimeOf((await starting).pid)).toBeNull();
  });

  test("after it nothing is started any more", async () => {
    await supervisor.close();
    await expect(supervisor.start(sleeper("late"))).rejects.toThrow("the run is ending");
  });
});

describe("a whole runner", () => {
  const SCRIPT = `
    import { openJournal } from ${JSON.stringify(join(import.meta.dirname, "journal.ts"))};
    import { listenForStop } from ${JSON.stringify(join(import.meta.dirname, "stop-signals.ts"))};
    import { openSupervisor } from ${JSON.stringify(join(import.meta.dirname, "supervisor.ts"))};
    const journal = openJournal(process.argv[1]);
    const supervisor = await openSupervisor({ journal, watchdog: ${JSON.stringify(WATCHDOG_PROCESS)} });
    const stop = listenForStop((signal, times) => console.log(signal, times));
    supervisor.registerUndo("heal", async () => console.log("healed"));
    await supervisor.within(stop.signal, async (signal) => {
      const child = await supervisor.start({ name: "sleeper", command: "sleep", args: ["600"], ends: "by-signal" });
      console.log("child", child.pid);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    stop.release();
    journal.close();
    console.log("over");
  `;
  test.each(["SIGINT", "SIGTERM"] as const)(
    "told to stop by %s heals, ends its children and then itself",
    async (signal) => {
      const runner = spawn(process.execPath, ["--input-type=module", "-e", SCRIPT, journal.path], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      let out = "";
      runner.stdout.on("data", (chunk: Buffer) => {
        out += chunk;
      });
      await waitUntil(async () => /child \d+/.test(out), { forMs: 15_000, pollMs: 20 });
      runner.kill(signal);
      await new Promise((resolve) => runner.once("close", resolve));
      expect(out).toMatch(new RegExp(`^child \\d+\n${signal} 1\nhealed\nover\n$`));
      expect(startTimeOf(Number(/child (\d+)/.exec(out)?.[1]))).toBeNull();
      expect(open()).toEqual([]);
    },
  );
});

const path = toxiproxyOrSkip();
test.skipIf(path === null)("toxiproxy is started under supervision, made anew, and is gone at the end", async () => {
  const upstream = await startUpstream();
  const start = supervisor.start.bind(supervisor);
  const server = await startToxiproxy({ command: [path as string], start });
  await server.toxiproxy.createProxy({ name: "a", upstream: upstream.address });
  await server.restart();
  expect(await server.toxiproxy.proxy("a").read()).toMatchObject({ enabled: true, toxics: [] });
  const pid = server.pid();
  expect(open()).toMatchObject([{ name: "toxiproxy", undo: { pid, end_last: true } }]);
  await supervisor.close();
  expect(startTimeOf(pid)).toBeNull();
  await server.stop();
  await upstream.close();
});

test("a child for which the user has no process left names the limit, and no other failure does", async () => {
  const failedBy = async (code: string): Promise<string | null> => {
    const child = spawnChild("true", [], { stdio: "ignore" });
    const failed = once(child, "exit", { signal: AbortSignal.timeout(10_000) }).then(
      () => null,
      ({ message }: Error) => message,
    );
    child.emit("error", Object.assign(new Error(`spawn redis-server ${code}`), { code }));
    return failed;
  };
  expect(await failedBy("EAGAIN")).toMatch(/^spawn redis-server EAGAIN: .*ulimit -u/);
  expect(await failedBy("ENOENT")).toBe("spawn redis-server ENOENT");
  expect(signalInWords("SIGABRT")).toMatch(/limit of .*threads/);
  expect(signalInWords("SIGTERM")).toBe("SIGTERM");
});
