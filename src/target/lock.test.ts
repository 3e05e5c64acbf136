import { spawn } from "node:child_process";
import {
  chownSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createInterface } from "node:readline";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startTimeOf } from "../supervision/processes.ts";
import { lockTarget, TargetBusyError } from "./target-file.ts";

const URL = "http://127.0.0.1:8080/v1";
const NONCE = "00000000000000ff";
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("the lock of a target", () => {
  test("a second run learns who has it and what to do, until it is released", () => {
    const lock = lockTarget(URL, folder);
    expect(() => lockTarget(URL, folder)).toThrow(TargetBusyError);
    expect(() => lockTarget(URL, folder)).toThrow(`kill ${process.pid}`);
    lock.release();
    lock.release();
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("the same target written in another way is the same target, another path is not", () => {
    const lock = lockTarget(URL, folder);
    expect(() => lockTarget("HTTP://user:pass@127.0.0.1:8080/v1/", folder)).toThrow(TargetBusyError);
    lockTarget("http://127.0.0.1:8080/v2", folder).release();
    lock.release();
  });

  test("no password of the URL stands in the message or the file", () => {
    const lock = lockTarget("http://user:hunter22@127.0.0.1:8080/v1", folder);
    expect(readFileSync(lock.path, "utf8")).not.toContain("hunter22");
    expect(() => lockTarget("http://user:hunter22@127.0.0.1:8080/v1", folder)).not.toThrow("hunter22");
    lock.release();
  });

  test("one whose process is gone is removed, of this target and of any other", async () => {
    const child = spawn("sleep", ["600"]);
    const start = startTimeOf(child.pid as number);
    const { path, release } = lockTarget(URL, folder);
    release();
    const of = (target: string) =>
      path.replace(/-[^-]*-[^-]*-[^-]*$/, `-${child.pid}-${start}-${NONCE}.lock`).replace(/[0-9a-f]{16}/, target);
    const same = /[0-9a-f]{16}/.exec(path)?.[0] as string;
    writeFileSync(of(same), URL);
    writeFileSync(of("0123456789abcdef"), "http://127.0.0.1:9");
    expect(() => lockTarget(URL, folder)).toThrow(`process ${child.pid}`);
    expect(readdirSync(folder)).toHaveLength(2);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("one whose holder could not look up its own start time is held while a process has its number", async () => {
    const child = spawn("sleep", ["600"]);
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path.replace(/-[^-]*-[^-]*-[^-]*$/, `-${child.pid}--${NONCE}.lock`), URL);
    expect(() => lockTarget(URL, folder)).toThrow(`process ${child.pid}`);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("one whose number belongs to a later process is taken over", () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path.replace(/-[^-]*-[^-]*$/, `-1-${NONCE}.lock`), URL);
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("releasing removes nobody else's, not even of a lock that was lost", () => {
    const lock = lockTarget(URL, folder);
    rmSync(lock.path);
    const other = lockTarget(URL, folder);
    lock.release();
    expect(readdirSync(folder)).toEqual([basename(other.path)]);
    other.release();
  });

  const planted = (path: string): string => {
    const start = encodeURIComponent(startTimeOf(process.pid) ?? "");
    return path.replace(/-[^-]*-[^-]*-[^-]*$/, `-${process.pid}-${start}-${NONCE}.lock`);
  };

  test("a link that somebody planted blocks nobody, and what it leads to stays as it is", () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    const victim = join(folder, "victim");
    writeFileSync(victim, "mine");
    symlinkSync(victim, planted(path));
    const lock = lockTarget(URL, folder);
    lock.release();
    expect(readFileSync(victim, "utf8")).toBe("mine");
    expect(lstatSync(planted(path)).isSymbolicLink()).toBe(true);
  });

  test.skipIf(process.getuid?.() !== 0)("another user's file blocks nobody, and is left alone", () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(planted(path), URL);
    expect(() => lockTarget(URL, folder)).toThrow(`process ${process.pid}`);
    chownSync(planted(path), 65_534, 65_534);
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([basename(planted(path))]);
  });

  test("a file of another name is left alone", () => {
    const names = ["floodgate-0123456789abcdef.lock", "floodgate-lock-of-mine.lock"];
    for (const name of names) writeFileSync(join(folder, name), "");
    lockTarget(URL, folder).release();
    expect(readdirSync(folder).sort()).toEqual(names);
  });

  /** Each tries on "go", says what came, gives it back on "back" and says so. */
  const RIVAL = `
    import { createInterface } from "node:readline";
    import { lockTarget } from ${JSON.stringify(join(import.meta.dirname, "target-file.ts"))};
    let lock;
    createInterface({ input: process.stdin }).on("line", (word) => {
      if (word === "back") { lock?.release(); lock = undefined; console.log("back"); return; }
      try { lock = lockTarget(${JSON.stringify(URL)}, process.argv[1]); console.log("got"); } catch (error) { console.log(error.name); }
    }).on("close", () => process.exit());
    console.log("ready");`;

  test("of many that come at the same moment exactly one gets it, over and over, also over a stale one", async () => {
    const rivals = Array.from({ length: 4 }, () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", RIVAL, folder], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      const next = async (): Promise<string> => (await lines.next()).value as string;
      const ask = (word: string): Promise<string> => {
        child.stdin.write(`${word}\n`);
        return next();
      };
      return { child, next, ask };
    });
    await Promise.all(rivals.map(({ next }) => next()));
    const { path, release } = lockTarget(URL, folder);
    release();
    for (let round = 0; round < 25; round++) {
      writeFileSync(path.replace(/-[^-]*-[^-]*$/, `-1-${NONCE}.lock`), URL);
      const said = await Promise.all(rivals.map(({ ask }) => ask("go")));
      expect(said.sort()).toEqual(["TargetBusyError", "TargetBusyError", "TargetBusyError", "got"]);
      expect(readdirSync(folder)).toHaveLength(1);
      await Promise.all(rivals.map(({ ask }) => ask("back")));
      expect(readdirSync(folder)).toEqual([]);
    }
    const exits = rivals.map(({ child }) => new Promise((resolve) => child.once("exit", resolve)));
    for (const { child } of rivals) child.stdin.end();
    await Promise.all(exits);
  });
});
