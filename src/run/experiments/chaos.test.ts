/**
 * `chaos` on a deployment that is not ours, as a user types it: what is broken is mended, also after kill -9, and what is
 * not ours stays as it was. Real processes, real faults.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ENTRY, type RunningCommand, startCommand } from "../../cli/command.fixture.ts";
import { eitherOf, type RunDocument } from "../../history/run-document.ts";
import { type JournalEntry, openEffects, readJournal } from "../../supervision/journal.ts";
import { parentOf } from "../../supervision/processes.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import { toxiproxyOrSkip } from "../../tools/toxiproxy.fixture.ts";
import type { ProxyState } from "../../tools/toxiproxy.ts";
import { type ForeignDeployment, startForeign } from "./foreign-deployment.fixture.ts";

const toxiproxyPath = toxiproxyOrSkip();

const chaos = (...args: string[]) => startCommand(["chaos", ...args]);

const journalIn = (out: string): JournalEntry[] => {
  const path = join(out, "journal.ndjson");
  return existsSync(path) ? readJournal(path).entries : [];
};
const documentIn = (out: string): RunDocument => JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;

const untilFault = async (runner: RunningCommand, out: string): Promise<void> => {
  const isIn = (): boolean => journalIn(out).some(({ kind, phase }) => kind === "fault" && phase === "done");
  await waitUntil(async () => isIn() || runner.child.exitCode !== null, { forMs: 60_000, pollMs: 20 });
  if (!isIn()) throw new Error(`no fault was put in; it said: ${runner.said()}`);
};

/** The watchdog: the child of the runner that was started first and is no driver. */
const watchdogOf = (runner: RunningCommand): number => {
  for (const pid of (
    readFileSync(`/proc/${runner.child.pid}/task/${runner.child.pid}/children`, "utf8").match(/\d+/g) ?? []
  ).map(Number)) {
    const command = readFileSync(`/proc/${pid}/cmdline`, "utf8");
    if (command.includes("watchdog-process") && parentOf(pid) === runner.child.pid) return pid;
  }
  throw new Error("the runner has no watchdog");
};

const locksOf = ({ child }: RunningCommand): string[] =>
  readdirSync(tmpdir()).filter((name) => name.endsWith(".lock") && name.includes(`-${child.pid}-`));

/** A deployment of somebody else's for each attempt at a test of one part; the tests of a part go one after the other. */
const deployed = () => {
  let folder = "";
  let theirs: ForeignDeployment;
  let untouched: ProxyState;
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), "floodgate-chaos-test-"));
    theirs = await startForeign(folder, toxiproxyPath as string);
    untouched = await theirs.stranger();
  });
  afterEach(async () => {
    await theirs?.stop();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  });
  const expectStranger = async (): Promise<void> => expect(await theirs.stranger()).toEqual(untouched);
  return {
    on: () => ({ folder, theirs }),
    expectStranger,
    expectWhole: async (proxy: string): Promise<void> => {
      expect(await theirs.toxiproxy.proxy(proxy).read()).toMatchObject({ enabled: true, toxics: [] });
      await expectStranger();
    },
  };
};

// The two parts go side by side: much of them is waiting.
const canRun = toxiproxyPath !== null && process.platform === "linux";
const part = { concurrent: true, skip: !canRun };
const alone = { concurrent: false };

describe("chaos on somebody's deployment, killed", part, () => {
  const { on, expectStranger, expectWhole } = deployed();

  test("killed while a link is broken: the watchdog mends it, and no other proxy is touched", alone, async () => {
    const { folder, theirs } = on();
    const out = join(folder, "killed");
    const runner = chaos("keys-refused", "--target", theirs.targetFile("killed.json"), "--out", out);
    await untilFault(runner, out);
    expect((await theirs.toxiproxy.proxy("keys").read()).enabled).toBe(false);
    expect(locksOf(runner)).toHaveLength(1);
    runner.child.kill("SIGKILL");
    await waitUntil(async () => openEffects(journalIn(out)).length === 0, { forMs: 10_000, pollMs: 50 });
    expect(openEffects(journalIn(out))).toEqual([]);
    expect(locksOf(runner)).toEqual([]);
    expect(journalIn(out).findLast(({ kind }) => kind === "fault")).toMatchObject({
      phase: "undone",
      by: "watchdog",
    });
    await expectWhole("keys");
  });

  test(
    "a job that is cancelled: its clean-up ends all of the job, and the watchdog still mends it",
    alone,
    async () => {
      const { folder, theirs } = on();
      const out = join(folder, "cancelled");
      const job = `github_${randomUUID()}`;
      // As a step has it: the shell stays above the command, and is signalled alone.
      const step = spawn(
        "bash",
        [
          ...["-c", '"$0" "$@"; exit $?', process.execPath, "--disable-warning=ExperimentalWarning", ENTRY],
          ...["chaos", "keys-refused", "--target", theirs.targetFile("cancelled.json"), "--out", out],
        ],
        { env: { ...process.env, RUNNER_TRACKING_ID: job }, stdio: "ignore" },
      );
      const ofJob = (): number[] =>
        readdirSync("/proc")
          .filter((name) => /^\d+$/.test(name))
          .map(Number)
          .filter((pid) => {
            try {
              return readFileSync(`/proc/${pid}/environ`, "utf8").includes(job);
            } catch {
              return false;
            }
          });
      const isIn = (): boolean => journalIn(out).some(({ kind, phase }) => kind === "fault" && phase === "done");
      await waitUntil(async () => isIn() || step.exitCode !== null, { forMs: 60_000, pollMs: 20 });
      expect(isIn()).toBe(true);
      for (const signal of ["SIGINT", "SIGTERM"] as const) step.kill(signal);
      // Without the time that the job has for it in truth.
      for (const pid of ofJob()) process.kill(pid, "SIGKILL");
      await waitUntil(async () => openEffects(journalIn(out)).length === 0, { forMs: 10_000, pollMs: 50 });
      expect(openEffects(journalIn(out))).toEqual([]);
      expect(ofJob()).toEqual([]);
      await expectWhole("keys");
    },
  );

  test(
    "killed with its watchdog: the next run is refused and says how to heal, and healing heals ours alone",
    alone,
    async () => {
      const { folder, theirs } = on();
      const out = join(folder, "left");
      const file = theirs.targetFile("left.json");
      const runner = chaos("limiter-reply-lost", "--target", file, "--out", out);
      await untilFault(runner, out);
      process.kill(watchdogOf(runner), "SIGKILL");
      runner.child.kill("SIGKILL");
      await runner.ended;
      expect((await theirs.toxiproxy.proxy("limiter").read()).toxics).toHaveLength(1);

      const refused = chaos("limiter-refused", "--target", file, "--out", join(folder, "refused"));
      expect((await refused.ended).code).toBe(5);
      expect(refused.said()).toContain(`chaos --heal --target ${file}`);
      expect(existsSync(join(folder, "refused"))).toBe(false);

      // Somebody else's toxic on the same proxy, meanwhile.
      const limiter = theirs.toxiproxy.proxy("limiter");
      await limiter.addToxic({
        name: "a-colleague",
        type: "latency",
        stream: "downstream",
        attributes: { latency: 1, jitter: 0 },
      });
      const without = chaos("--heal", "--out", out);
      expect((await without.ended).code).toBe(4);
      expect(without.said()).toContain("fault limiter.reply-lost: STILL BROKEN: needs the target file of theirs");
      const healing = chaos("--heal", "--out", out, "--target", file);
      expect((await healing.ended).code, healing.said()).toBe(0);
      expect(healing.said()).toContain("fault limiter.reply-lost: DELETE toxic floodgate-reply-lost");
      expect(healing.said()).toContain("proxy limiter: it serves");
      expect((await limiter.read()).toxics).toMatchObject([{ name: "a-colleague" }]);
      await expectStranger();

      const again = chaos("--heal", "--out", out);
      expect((await again.ended).code).toBe(0);
      expect(again.said()).toContain("Nothing to heal");

      const theirsNow = chaos("limiter-refused", "--target", file, "--out", join(folder, "refused"));
      expect((await theirsNow.ended).code).toBe(5);
      expect(theirsNow.said()).toContain("somebody else did that, so it is not touched");
      await limiter.removeToxic("a-colleague");
      await expectWhole("limiter");
    },
  );
});

describe("chaos on somebody's deployment, by its own commands", part, () => {
  const { on, expectWhole } = deployed();

  test("by the deployment's own commands: healed once before, seen by the callers, mended", alone, async () => {
    const { folder, theirs } = on();
    const out = join(folder, "commands");
    const log = join(folder, "commands.log");
    const pid = theirs.pidOf("limiter");
    const proxy = `${theirs.toxiproxy.apiUrl}/proxies/keys`;
    const patch = (enabled: boolean): string => `curl -sf -X PATCH -d '{"enabled":${enabled}}' ${proxy} >&2`;
    const file = theirs.targetFile("commands.json", {
      toxiproxy: undefined as never,
      faults: {
        "limiter.stopped": {
          inject: [`echo inject >> ${log}; kill -STOP ${pid}`],
          heal: [`echo heal >> ${log}`, `kill -CONT ${pid}`],
        },
        "keys.refused": { inject: [`exec:${patch(false)}`], heal: [`exec:${patch(true)}`] },
      },
    });
    const runner = chaos("keys-refused", "limiter-stopped", "--target", file, "--out", out, "--quiet");
    expect((await runner.ended).code, runner.said()).toBe(0);
    const { faults, stages } = documentIn(out);
    // On a busy machine an experiment may be played a second time: each playing heals beforehand, injects and heals.
    const of = (experiment: string) => stages.filter(({ name }) => eitherOf(name) === experiment);
    expect(readFileSync(log, "utf8")).toBe("heal\ninject\nheal\n".repeat(of("limiter-stopped").length));
    expect(faults.map(({ experiment, took_effect }) => [experiment, took_effect])).toEqual(
      stages.map(({ name }) => [eitherOf(name), true]),
    );
    for (const [experiment, outcome] of [
      ["keys-refused", "503"],
      ["limiter-stopped", "429 limiter_unavailable"],
    ] as const) {
      expect(of(experiment)).not.toEqual([]);
      for (const { by_outcome } of of(experiment)) expect(by_outcome).toHaveProperty([outcome]);
    }
    expect(openEffects(journalIn(out))).toEqual([]);
    await expectWhole("keys");
  });

  test("healing that does not work beforehand: nothing is injected", alone, async () => {
    const { folder, theirs } = on();
    const out = join(folder, "no-heal");
    const injected = join(folder, "injected");
    const file = theirs.targetFile("no-heal.json", {
      toxiproxy: undefined as never,
      faults: { "limiter.stopped": { inject: [`touch ${injected}`], heal: ["echo not here >&2; exit 3"] } },
    });
    const runner = chaos("--target", file, "--out", out, "--quiet");
    expect((await runner.ended).code).toBe(4);
    expect(existsSync(injected)).toBe(false);
    expect(documentIn(out).claims.find(({ id }) => id === "reached/limiter-stopped")?.reason).toContain("not here");
  });

  test("without the permit, or with a toxiproxy elsewhere, nothing begins", alone, async () => {
    const { theirs } = on();
    const unpermitted = chaos("--target", theirs.targetFile("no.json", { permits: { load_max_rps: 100 } }));
    expect((await unpermitted.ended).code).toBe(5);
    const remote = { api_url: "http://proxy.example:8474", proxies: { limiter: "limiter" } };
    const away = chaos("--target", theirs.targetFile("away.json", { toxiproxy: remote }), "--i-own", "proxy.example");
    expect((await away.ended).code).toBe(5);
    expect(away.said()).toContain("--watchdog");
  });
});
