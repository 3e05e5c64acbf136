import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { handOverToken, readPrivateFile, tokenOfDoor, writePrivateFile } from "./private-file.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-private-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});
const modeOf = (path: string): number => lstatSync(path).mode & 0o777;

describe("a file with a secret", () => {
  test("is for its owner only, whatever stood there and whoever may read that", async () => {
    const path = join(folder, "target.json");
    writeFileSync(path, "old", { mode: 0o644 });
    chmodSync(path, 0o666);
    const before = statSync(path).ino;
    await writePrivateFile(path, "new");
    expect([readFileSync(path, "utf8"), modeOf(path)]).toEqual(["new", 0o600]);
    expect(statSync(path).ino).not.toBe(before);
    expect(readdirSync(folder)).toEqual(["target.json"]);
  });

  test.each(["a file that is there", "a file that is not there"])("takes the place of a link to %s", async (what) => {
    const victim = join(folder, "victim");
    if (what.endsWith("is there")) writeFileSync(victim, "mine");
    const path = join(folder, "target.json");
    symlinkSync(victim, path);
    await writePrivateFile(path, "secret");
    expect(lstatSync(path).isFile()).toBe(true);
    expect(readdirSync(folder).includes("victim") ? readFileSync(victim, "utf8") : "mine").toBe("mine");
  });

  test("takes the place of nothing but a file", async () => {
    const path = join(folder, "target.json");
    mkdirSync(path);
    await expect(writePrivateFile(path, "x")).rejects.toMatchObject({ code: "ENOTREG" });
    const device = join(folder, "device");
    symlinkSync("/dev/null", device);
    await expect(writePrivateFile(device, "x")).rejects.toMatchObject({ code: "ENOTREG" });
    expect(lstatSync(device).isSymbolicLink()).toBe(true);
  });

  test("that must be new is not written over what is there, a link that leads nowhere included", async () => {
    const path = join(folder, "target.json");
    symlinkSync(join(folder, "nowhere"), path);
    await expect(writePrivateFile(path, "x", { mayReplace: false })).rejects.toMatchObject({ code: "EEXIST" });
    expect(readdirSync(folder)).toEqual(["target.json"]);
  });

  test("is read only where nobody else can have written it or can read it", async () => {
    const path = join(folder, "token");
    await writePrivateFile(path, "t");
    expect(await readPrivateFile(path, 10)).toBe("t");
    expect(await readPrivateFile(path, 0)).toBeNull();
    const linked = join(folder, "linked");
    symlinkSync(path, linked);
    expect(await readPrivateFile(linked, 10)).toBeNull();
    chmodSync(path, 0o644);
    expect(await readPrivateFile(path, 10)).toBeNull();
    expect(await readPrivateFile(join(folder, "none"), 10)).toBeNull();
    expect(await readPrivateFile(folder, 10)).toBeNull();
  });
});

describe("the token of a door", () => {
  test("is handed over by a file of the same user, for loopback only, and is gone afterwards", async () => {
    vi.stubEnv("TMPDIR", folder);
    const { path, remove } = await handOverToken("http://127.0.0.1:4711", "a-token");
    expect(modeOf(path)).toBe(0o600);
    expect(modeOf(join(path, ".."))).toBe(0o700);
    expect(await tokenOfDoor("http://localhost:4711/lease")).toBe("a-token");
    expect(await tokenOfDoor("http://127.0.0.1:4712")).toBeNull();
    expect(await tokenOfDoor("http://10.0.0.1:4711")).toBeNull();
    await remove();
    expect(await tokenOfDoor("http://127.0.0.1:4711")).toBeNull();
  });

  test("is neither written to nor read from a folder that others can enter, or a link to one", async () => {
    vi.stubEnv("TMPDIR", folder);
    const { path } = await handOverToken("http://127.0.0.1:4711", "a-token");
    chmodSync(join(path, ".."), 0o755);
    expect(await tokenOfDoor("http://127.0.0.1:4711")).toBeNull();
    await expect(handOverToken("http://127.0.0.1:4711", "a-token")).rejects.toThrow("nobody else can enter");
    const own = join(path, "..");
    rmSync(own, { recursive: true });
    const elsewhere = join(folder, "elsewhere");
    mkdirSync(elsewhere, { mode: 0o700 });
    symlinkSync(elsewhere, own);
    await expect(handOverToken("http://127.0.0.1:4711", "a-token")).rejects.toThrow("nobody else can enter");
    expect(readdirSync(elsewhere)).toEqual([]);
  });
});
