import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startTimeOf } from "../supervision/processes.ts";
import { lockTarget, TargetBusyError } from "./lock.ts";

const URL = "http://127.0.0.1:8080/v1";
let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-lock-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

describe("the lock of a target", () => {
  test("a second run is told who has it and what to do, until it is released", () => {
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

  test("one whose process is gone is taken over", async () => {
    const child = spawn("sleep", ["600"]);
    const stale = { pid: child.pid as number, start: startTimeOf(child.pid as number), nonce: "old" };
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path, JSON.stringify(stale));
    expect(() => lockTarget(URL, folder)).toThrow(`process ${child.pid}`);
    child.kill("SIGKILL");
    await new Promise((resolve) => child.once("exit", resolve));
    lockTarget(URL, folder).release();
    expect(readdirSync(folder)).toEqual([]);
  });

  test("one whose number belongs to a later process is taken over", () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path, JSON.stringify({ pid: process.pid, start: "1", nonce: "old" }));
    lockTarget(URL, folder).release();
  });

  test("a file that nobody can read as a lock is taken over", () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path, "");
    lockTarget(URL, folder).release();
  });

  test("a lock that was lost is not taken from its new holder", () => {
    const lock = lockTarget(URL, folder);
    rmSync(lock.path);
    const other = lockTarget(URL, folder);
    lock.release();
    expect(readdirSync(folder)).toHaveLength(1);
    other.release();
  });

  test("of many that come at once on a stale lock exactly one gets it", async () => {
    const { path, release } = lockTarget(URL, folder);
    release();
    writeFileSync(path, JSON.stringify({ pid: process.pid, start: "1", nonce: "old" }));
    const script = `
      import { lockTarget } from ${JSON.stringify(join(import.meta.dirname, "lock.ts"))};
      process.stdin.once("data", () => {
        try { lockTarget(${JSON.stringify(URL)}, ${JSON.stringify(folder)}); console.log("got"); } catch { console.log("busy"); }
      });
      process.stdin.on("end", () => process.exit());
      console.log("ready");`;
    const rivals = Array.from({ length: 4 }, () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
        stdio: ["pipe", "pipe", "inherit"],
      });
      const said = { text: "" };
      child.stdout.on("data", (chunk: Buffer) => {
        said.text += chunk;
      });
      const until = (word: RegExp) =>
        new Promise<void>((resolve) => {
          const look = () => word.test(said.text) && resolve();
          child.stdout.on("data", look);
          look();
        });
      return { child, said, until };
    });
    await Promise.all(rivals.map((rival) => rival.until(/ready/)));
    for (const { child } of rivals) child.stdin.write("go\n");
    await Promise.all(rivals.map((rival) => rival.until(/got|busy/)));
    expect(rivals.filter(({ said }) => said.text.includes("got"))).toHaveLength(1);
    const exits = rivals.map(({ child }) => new Promise((resolve) => child.once("exit", resolve)));
    for (const { child } of rivals) child.stdin.end();
    await Promise.all(exits);
  });
});
