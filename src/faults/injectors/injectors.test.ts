/** One suite for every way of breaking and mending: toxiproxy's API, commands that drive a second toxiproxy, and signals. */
import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { startForTests, startUpstream, toxiproxyOrSkip, type Upstream } from "../../tools/toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "../../tools/toxiproxy-server.ts";
import { makeFault } from "../link-faults.ts";
import { type InjectorUnderTest, injectorSuite } from "./injector.fixture.ts";
import { byCommands, type FaultCommands, onLink } from "./proxies-and-commands.ts";

const BUDGET_MS = 200;
const commandsOf = (commands: FaultCommands) => byCommands(commands, { cwd: ".", onSpawn: () => () => undefined });

const path = toxiproxyOrSkip();
describe.skipIf(path === null)("over toxiproxy", () => {
  let server: ToxiproxyServer;
  let upstream: Upstream;
  beforeAll(async () => {
    upstream = await startUpstream();
    server = await startForTests(path as string);
    await server.toxiproxy.createProxy({ name: "a-stranger", upstream: upstream.address });
    await server.toxiproxy.proxy("a-stranger").setEnabled(false);
  });
  afterAll(async () => {
    await server?.stop();
    await upstream?.close();
  });
  beforeEach(() => server.toxiproxy.createProxy({ name: "limiter", upstream: upstream.address }));
  const isWhole = async (): Promise<boolean> => {
    const { enabled, toxics } = await server.toxiproxy.proxy("limiter").read();
    return enabled && toxics.length === 0;
  };
  afterEach(async () => {
    await server.toxiproxy.removeProxy("limiter");
    expect((await server.toxiproxy.proxy("a-stranger").read()).enabled, "a proxy that is not ours").toBe(false);
  });

  describe.each(["refused", "reply-lost", "trickle", "slow-beyond-budget"])("its API, %s", (name) => {
    injectorSuite(async (): Promise<InjectorUnderTest> => {
      const fault = makeFault(name, { budgetMs: BUDGET_MS });
      const { toxiproxy } = server;
      return { injector: onLink({ toxiproxy, proxy: "limiter", fault, mayReset: false }), isWhole };
    });
  });

  const curl = (): string => `curl -sf ${server.apiUrl}/proxies/limiter`;

  describe("commands that drive it: disabled", () => {
    injectorSuite(async () => ({
      injector: commandsOf({
        inject: [`${curl()} -X PATCH -d '{"enabled":false}'`],
        heal: [`exec:${curl()} -X PATCH -d '{"enabled":true}'`],
        status: `${curl()} | grep -q '"enabled":false'`,
      }),
      isWhole,
    }));
  });

  describe("commands that drive it: a toxic", () => {
    injectorSuite(async () => {
      const toxic = JSON.stringify({
        name: "theirs",
        type: "timeout",
        stream: "downstream",
        attributes: { timeout: 0 },
      });
      const find = `${curl()} | grep -q '"name":"theirs"'`;
      return {
        injector: commandsOf({
          inject: [`${curl()}/toxics -d '${toxic}'`],
          heal: [`if ${find}; then ${curl()}/toxics/theirs -X DELETE; fi`],
          status: find,
        }),
        isWhole,
      };
    });
  });
});

describe.skipIf(process.platform !== "linux")("commands that send signals", () => {
  const children: ChildProcess[] = [];
  afterAll(() => {
    for (const child of children) child.kill("SIGKILL");
  });
  const stateOf = (pid: number): string =>
    /^State:\s+(\S)/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? "";

  injectorSuite(async () => {
    const child = spawn("sleep", ["60"], { stdio: "ignore" });
    children.push(child);
    const pid = child.pid as number;
    return {
      injector: commandsOf({
        // The signal takes effect when the process is next scheduled.
        inject: [`kill -STOP ${pid}; until grep -q '^State:.T' /proc/${pid}/status; do sleep 0.01; done`],
        heal: [`kill -CONT ${pid}`],
        status: `grep -q '^State:.T' /proc/${pid}/status`,
      }),
      isWhole: async () => stateOf(pid) !== "T",
    };
  });
});

test("without a status command nobody can be asked, and nothing is claimed", async () => {
  const port = commandsOf({ inject: ["true"], heal: ["true"] });
  await port.inject(AbortSignal.timeout(60_000));
  expect(await port.status(AbortSignal.timeout(60_000))).toBe("unknown");
});

test("a status command that cannot look is no answer", async () => {
  const port = commandsOf({ inject: ["true"], heal: ["true"], status: "exit 7" });
  expect(await port.status(AbortSignal.timeout(60_000))).toBe("unknown");
});

test("healing that ends with 0 and heals nothing is found out", async () => {
  const port = commandsOf({ inject: ["true"], heal: ["true"], status: "true" });
  await expect(port.heal(AbortSignal.timeout(60_000))).rejects.toThrow("still in force after healing");
});
