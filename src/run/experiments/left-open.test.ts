/** What an earlier run left broken, by its journal and by what a real toxiproxy has. */
import { existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeFault } from "../../faults/link-faults.ts";
import { openJournal, type Undo } from "../../supervision/journal.ts";
import type { Target } from "../../target/target.ts";
import { targetName } from "../../target/target-file.ts";
import { startForTests, startUpstream, toxiproxyOrSkip, type Upstream } from "../../tools/toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "../../tools/toxiproxy-server.ts";
import { QUIET } from "../play-quietly.fixture.ts";
import { healBeforehand, healLeftOpen, leftBrokenIn } from "./left-open.ts";
import { runChaos } from "./run-chaos.ts";

/** A run that was killed with a fault open. */
const killedRun = (reports: string, name: string, undo: Undo): void => {
  const folder = join(reports, "runs", name);
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const journal = openJournal(join(folder, "journal.ndjson"));
  journal.done(journal.about({ kind: "fault", name: "limiter.stopped", undo }));
  journal.close();
};
const target = (more: Partial<Target>): Target => ({
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  ...more,
});

const byCommands = (fault: string, file?: string): Undo => ({
  how: "command",
  fault,
  commands: ["exit 9"],
  cwd: "/",
  target: targetName(target({}), file),
});

describe("faults by commands", () => {
  let reports: string;
  beforeEach(async () => {
    reports = await mkdtemp(join(tmpdir(), "floodgate-left-"));
  });
  afterEach(() => rmSync(reports, { recursive: true, force: true }));

  test("one that was left is refused until it is healed, for its own target alone", async () => {
    const healed = join(reports, "healed");
    const faults = { "limiter.stopped": { inject: ["false"], heal: [`touch ${healed}`] } };
    const file = join(reports, "target.json");
    killedRun(reports, "one", byCommands("limiter.stopped", file));
    expect(await leftBrokenIn({ file, target: target({ faults }) }, reports)).toEqual([
      expect.stringMatching(
        /^limiter\.stopped was left broken by the run of .*one: `npx floodgate chaos --heal --target/,
      ),
    ]);
    const other = target({ faults, base_url: "http://127.0.0.1:2/v1" });
    expect(await leftBrokenIn({ file, target: other }, reports)).toEqual([]);

    const said: string[] = [];
    await healBeforehand(reports, [{ file, target: other }], (text) => void said.push(text));
    expect(existsSync(healed)).toBe(false);
    said.length = 0;
    await healBeforehand(reports, [{ file, target: target({ faults }) }], (text) => void said.push(text));
    expect(said).toEqual(["limiter.stopped of an earlier run: ran 1 heal command(s)"]);
    expect(existsSync(healed)).toBe(true);
    expect(await leftBrokenIn({ file, target: target({ faults }) }, reports)).toEqual([]);
  });

  test("a journal that cannot be read is reported, and hides no other", async () => {
    mkdirSync(join(reports, "runs", "broken", "journal.ndjson"), { recursive: true });
    killedRun(reports, "later", byCommands("limiter.stopped"));
    const faults = { "limiter.stopped": { inject: ["false"], heal: ["true"] } };
    const given = [{ file: "target.json", target: target({ faults }) }];
    const { runs, isWhole } = await healLeftOpen(reports, { given });
    expect(isWhole).toBe(false);
    expect(runs.flatMap(({ taken }) => taken)).toMatchObject([
      { kind: "journal", did: null },
      { kind: "fault", did: "ran 1 heal command(s)" },
    ]);
  });

  test("healing that fails leaves the fault open, for the next attempt", async () => {
    const own = await mkdtemp(join(tmpdir(), "floodgate-left-"));
    killedRun(own, "one", byCommands("limiter.stopped"));
    const faults = { "limiter.stopped": { inject: ["false"], heal: ["exit 3"] } };
    const given = [{ file: "target.json", target: target({ faults }) }];
    expect((await healLeftOpen(own, { given })).isWhole).toBe(false);
    expect((await healLeftOpen(own, { given })).isWhole).toBe(false);
    rmSync(own, { recursive: true });
  });
});

const path = toxiproxyOrSkip();
describe.skipIf(path === null)("faults on a proxy", () => {
  let server: ToxiproxyServer;
  let upstream: Upstream;
  let reports: string;
  beforeEach(async () => {
    reports = await mkdtemp(join(tmpdir(), "floodgate-left-"));
    upstream = await startUpstream(0);
    server = await startForTests(path as string);
    await server.toxiproxy.createProxy({ name: "theirs", upstream: upstream.address });
  });
  afterEach(async () => {
    await server?.stop();
    await upstream?.close();
    rmSync(reports, { recursive: true, force: true });
  });
  const look = (folder: string) => {
    const toxiproxy = { api_url: server.apiUrl, proxies: { limiter: "theirs" } };
    return leftBrokenIn({ file: "target.json", target: target({ toxiproxy }) }, folder);
  };

  test("ours is refused, by the journal or by its name; healed or removed it is not; a stranger's is no matter of ours", async () => {
    const proxy = server.toxiproxy.proxy("theirs");
    const fault = makeFault("reply-lost", { budgetMs: 100 });
    await fault.put(proxy);
    const undo: Undo = {
      how: "heal-proxy",
      api_url: server.apiUrl,
      proxy: "theirs",
      disables: false,
      target: targetName(target({})),
    };
    killedRun(reports, "one", undo);
    expect(await look(reports)).toEqual([expect.stringContaining("limiter.stopped was left broken by the run of")]);
    expect(await look(join(reports, "nobody's"))).toEqual([
      expect.stringContaining("by its name a floodgate put it there"),
    ]);

    // Somebody took it away by hand: the journal is still open, and nothing is broken.
    await fault.take(proxy);
    expect(await look(reports)).toEqual([]);

    await proxy.addToxic({ name: "a-colleague", type: "timeout", stream: "upstream", attributes: { timeout: 0 } });
    expect(await look(reports)).toEqual([]);
  });

  test("an experiment that heals first does so once, while it holds the target", async () => {
    await server.toxiproxy.createProxy({ name: "mute", upstream: "127.0.0.1:1" });
    const toxiproxy = { api_url: server.apiUrl, proxies: { limiter: "theirs", keys: "mute" } };
    const file = join(reports, "target.json");
    const tenants = [{ org: "org_a", server: { key: "svc_sk_live_a" } }] as NonNullable<Target["tenants"]>;
    const permits = { chaos: true, load_max_rps: 50 };
    writeFileSync(file, JSON.stringify(target({ toxiproxy, permits, tenants })), { mode: 0o600 });
    const said: string[] = [];
    const { document } = await runChaos({
      ...{ seed: 1, reports, out: join(reports, "run"), replay: "-", owned: [], targetFile: file, healFirst: true },
      ...{ names: ["limiter-refused"], short: false, limiter: "sqlite" },
      events: { ...QUIET, warning: (text) => void said.push(text) },
    });
    expect(document.exit_code).toBe(3);
    expect(said.filter((text) => text.includes('the proxy "mute"'))).toEqual([
      expect.stringContaining("nobody answers at its upstream"),
    ]);
  });
});
