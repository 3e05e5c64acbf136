import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";

const { isEnough } = await import(join(import.meta.dirname, "install-first.mjs"));

// A clone of nothing but the entry, a lock file and a script, with an `npm` that does what `npm ci` does to the lock file of node_modules.
let root: string;

const lock = (version: string, more: object = {}) =>
  JSON.stringify({ packages: { "": {}, "node_modules/a": { version }, ...more } });

const NPM = `#!/bin/sh
echo "npm $*" >> npm.log
[ -n "$FAKE_FAILS" ] && { echo 'npm error EACCES' >&2; exit 243; }
mkdir -p node_modules && cp package-lock.json node_modules/.package-lock.json
`;

const start = (env: NodeJS.ProcessEnv = {}) =>
  spawnSync(process.execPath, [join(root, "src/cli/install-first.mjs"), "script.mjs", "--x"], {
    cwd: root,
    encoding: "utf8",
    env: { PATH: `${root}/bin:/usr/bin:/bin`, ...env },
  });

const age = (file: string, seconds: number) => utimesSync(join(root, file), 1e9 + seconds, 1e9 + seconds);

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "floodgate-install-"));
  mkdirSync(join(root, "bin"));
  writeFileSync(join(root, "bin/npm"), NPM, { mode: 0o755 });
  cpSync(join(import.meta.dirname, "install-first.mjs"), join(root, "src/cli/install-first.mjs"));
  writeFileSync(join(root, "script.mjs"), "console.log('played', ...process.argv.slice(2));\n");
  writeFileSync(join(root, "package-lock.json"), lock("1.0.0"));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

test("a fresh clone installs its packages once, says so, and keeps stdout for results", () => {
  const first = start();
  expect(first).toMatchObject({ status: 0, stdout: "played --x\n" });
  expect(first.stderr).toContain("the packages of this clone are not installed yet: running npm ci");
  expect(start()).toMatchObject({ status: 0, stdout: "played --x\n", stderr: "" });
});

test("a lock file that is newer installs again only where it asks for something else", () => {
  start();
  age("node_modules/.package-lock.json", 0);
  age("package-lock.json", 60);
  expect(start().stderr).toBe("");
  // A package of another platform, and those for development where none is installed, may be absent.
  writeFileSync(
    join(root, "package-lock.json"),
    lock("1.0.0", {
      "node_modules/b": { version: "1.0.0", optional: true },
      "node_modules/c": { version: "1", dev: true },
    }),
  );
  expect(start().stderr).toBe("");
  writeFileSync(join(root, "package-lock.json"), lock("1.0.1"));
  expect(start().stderr).toContain("package-lock.json has changed: running npm ci");
  expect(start().stderr).toBe("");
});

test.each([
  ["20.20.2", false],
  // No `using`.
  ["22.18.0", false],
  ["23.11.1", false],
  // No `mkdtempDisposable`.
  ["24.3.0", false],
  ["24.4.0", true],
  ["26.0.0", true],
])("Node %s runs this TypeScript: %s", (version, isEnoughThere) => {
  expect(isEnough(version)).toBe(isEnoughThere);
});

test("an installation that fails ends with what npm says and exit code 2", () => {
  const { status, stderr, stdout } = start({ FAKE_FAILS: "yes" });
  expect([status, stdout]).toEqual([2, ""]);
  expect(stderr).toContain("npm error EACCES");
  expect(stderr).toContain("npm ci ended with 243; see what it says above, mend it and run this again.");
  expect(existsSync(join(root, "node_modules"))).toBe(false);
});
