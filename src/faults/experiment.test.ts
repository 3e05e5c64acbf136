import { describe, expect, test } from "vitest";
import type { FaultLine } from "../history/line.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { httpProbe, observeLink } from "../tools/link-probe.ts";
import { toxiproxyOrSkip } from "../tools/toxiproxy.fixture.ts";
import { toxiproxyRig } from "../tools/toxiproxy-rig.fixture.ts";
import { type ExperimentPlan, runExperiment } from "./experiment.ts";
import { onLink, undoOf } from "./injectors/proxies-and-commands.ts";
import { faultTeller, makeFault } from "./link-faults.ts";

/** Of an experiment that went as it should. */
const WHOLE = { steady: true, tookEffect: true, healed: true, recovered: true, stopped: false, notes: [] };

/** What happened, in order, by steps that do nothing else. */
const rehearsal = (changes: Partial<ExperimentPlan> = {}) => {
  const order: string[] = [];
  const step = (name: string) => async () => {
    order.push(name);
    return true;
  };
  const steps = {
    isSteady: step("steady"),
    inject: async () => void order.push("inject"),
    showsEffect: step("shows"),
    heal: async () => {
      order.push("heal");
      return [];
    },
    hasRecovered: step("recovered"),
    ...changes,
  };
  const kept = new Set<string>();
  const supervisor: Pick<Supervisor, "begin"> = {
    begin: (_, name, takeBack) => {
      order.push("about");
      kept.add(name);
      return {
        done: () => void order.push("done"),
        takeBack: async () => {
          await takeBack();
          order.push("undone");
          kept.delete(name);
        },
        over: () => undefined,
      };
    },
  };
  const plan: ExperimentPlan = {
    name: "limiter.refused",
    undo: { how: "nothing" },
    ...steps,
    steadyMs: 100,
    injectMs: 100,
    effectMs: 100,
    holdMs: 1,
    healMs: 100,
    recoveryMs: 100,
    pollMs: 5,
  };
  let now = 0;
  const lines: FaultLine[] = [];
  const onLine = (line: FaultLine): void => void lines.push(line);
  const say = faultTeller("s", "limiter", { name: "refused", stream: "both" }, () => ++now, onLine);
  const { signal } = new AbortController();
  return { order, plan, lines, kept, surroundings: { supervisor, say, signal } };
};

describe("an experiment", () => {
  test("goes steady, written down, injected, seen, healed, recovered, in that order", async () => {
    const { order, plan, lines, surroundings } = rehearsal();
    const outcome = await runExperiment(plan, surroundings);
    expect(order).toEqual(["steady", "about", "inject", "done", "shows", "heal", "undone", "recovered"]);
    expect(lines.map((line) => line.phase)).toEqual(["injecting", "injected", "healing", "healed"]);
    expect(lines.map((line) => line.at_us)).toEqual([1, 2, 3, 4]);
    expect(lines[1]).toMatchObject({
      took_effect: true,
      link: "limiter",
      fault: "refused",
      experiment: "limiter-refused",
    });
    expect(outcome).toEqual(WHOLE);
  });

  test("goes on until enough was seen of the fault, and no longer than three times its time", async () => {
    const { order, plan, surroundings } = rehearsal();
    let looks = 0;
    const isSeenEnough = async (): Promise<boolean> => {
      looks += 1;
      return looks === 3;
    };
    await runExperiment({ ...plan, holdMs: 1_000, isSeenEnough }, surroundings);
    expect(looks).toBe(3);
    expect(order).toContain("heal");
    const isNeverSeen = async () => false;
    expect((await runExperiment({ ...plan, holdMs: 20, isSeenEnough: isNeverSeen }, surroundings)).healed).toBe(true);
  });

  test("breaks nothing in a target that is not healthy beforehand", async () => {
    const { order, plan, lines, surroundings } = rehearsal({ isSteady: async () => false });
    const outcome = await runExperiment(plan, surroundings);
    expect(order).toEqual([]);
    expect(lines).toEqual([]);
    expect(outcome).toMatchObject({ steady: false, tookEffect: false, healed: true, recovered: null });
  });

  test("breaks nothing when it cannot be written down first", async () => {
    const { order, plan, surroundings } = rehearsal();
    surroundings.supervisor.begin = () => {
      throw new Error("no space left");
    };
    await expect(runExperiment(plan, surroundings)).rejects.toThrow("no space left");
    expect(order).toEqual(["steady"]);
  });

  test("a fault that does not show is told as such, not held, and healed", async () => {
    const { order, plan, lines, surroundings } = rehearsal({ showsEffect: async () => false });
    const outcome = await runExperiment({ ...plan, holdMs: 60_000 }, surroundings);
    expect(outcome).toMatchObject({ tookEffect: false, healed: true });
    expect(lines.find((line) => line.phase === "injected")?.took_effect).toBe(false);
    expect(outcome.notes.join()).toContain("effect seen through the link");
    expect(order).toContain("heal");
  });

  test("heals after an injection that failed halfway", async () => {
    const { order, plan, lines, surroundings } = rehearsal({ inject: () => Promise.reject(new Error("half done")) });
    const outcome = await runExperiment(plan, surroundings);
    expect(order).toContain("heal");
    expect(outcome).toMatchObject({ tookEffect: false, healed: true, notes: ["inject: half done"] });
    expect(lines.map((line) => line.phase)).toEqual(["injecting", "injected", "healing", "healed"]);
  });

  test("heals at once when told to stop, with a signal that is not the stopped one", async () => {
    const stop = new AbortController();
    let healedUnder: boolean | undefined;
    const { plan, surroundings } = rehearsal({
      showsEffect: async () => {
        stop.abort();
        return true;
      },
      heal: async (signal) => {
        healedUnder = signal.aborted;
        return [];
      },
    });
    const outcome = await runExperiment({ ...plan, holdMs: 60_000 }, { ...surroundings, signal: stop.signal });
    expect(healedUnder).toBe(false);
    expect(outcome).toMatchObject({ healed: true, stopped: true, recovered: null });
  });

  test("a heal that fails is a failed cleanup: told, left open in the journal and kept for the end of the run", async () => {
    const { order, plan, lines, kept, surroundings } = rehearsal({ heal: () => Promise.reject(new Error("wedged")) });
    const outcome = await runExperiment(plan, surroundings);
    expect(outcome).toMatchObject({ healed: false, recovered: null, notes: ["not healed: wedged"] });
    expect(order).not.toContain("undone");
    expect(lines.at(-1)?.phase).toBe("healing");
    expect([...kept]).toEqual(["heal limiter.refused"]);
  });

  test("a target that does not recover by the deadline is told with the last reason", async () => {
    const { plan, surroundings } = rehearsal({ hasRecovered: () => Promise.reject(new Error("still 503")) });
    const outcome = await runExperiment(plan, surroundings);
    expect(outcome.recovered).toBe(false);
    expect(outcome.notes).toEqual(["recovery within 100 ms: no (still 503)"]);
  });

  test("a look that never comes back ends at its deadline", async () => {
    const { plan, surroundings } = rehearsal({ showsEffect: () => new Promise(() => {}) });
    const outcome = await runExperiment(plan, surroundings);
    expect(outcome).toMatchObject({ tookEffect: false, healed: true });
  });
});

const path = toxiproxyOrSkip();
describe.skipIf(path === null)("an experiment on a real link", () => {
  const rig = toxiproxyRig(path as string);

  const broken = async (proxy: string, fault: string) => {
    const { listen } = await rig.server.toxiproxy.createProxy({
      name: proxy,
      upstream: rig.upstream.address,
    });
    const probe = httpProbe(listen, "/", 400);
    const made = makeFault(fault, { budgetMs: 100 });
    const link = { toxiproxy: rig.server.toxiproxy, proxy, fault: made, mayReset: true };
    const showsEffect = async () => made.shows(await observeLink(probe));
    const isWhole = async () => (await observeLink(probe)).ended === "complete";
    const { plan, surroundings } = rehearsal({
      ...onLink(link),
      showsEffect,
      isSteady: isWhole,
      hasRecovered: isWhole,
    });
    return {
      plan: {
        ...plan,
        undo: undoOf(link, { base_url: "http://127.0.0.1:1/v1" }),
        steadyMs: 5_000,
        injectMs: 5_000,
        effectMs: 5_000,
        healMs: 5_000,
        recoveryMs: 5_000,
      },
      surroundings,
    };
  };

  test.each(["refused", "reply-lost", "flapping"])("%s takes effect and is healed", async (fault) => {
    const { plan, surroundings } = await broken(`real-${fault}`, fault);
    const outcome = await runExperiment(plan, surroundings);
    expect(outcome).toEqual(WHOLE);
  });

  test("a link that somebody left broken is not built upon, and is made whole", async () => {
    const { plan, surroundings } = await broken("real-left", "refused");
    const left = rig.server.toxiproxy.proxy("real-left");
    await left.addToxic({ name: "old", stream: "downstream", type: "latency", attributes: { latency: 1, jitter: 0 } });
    const outcome = await runExperiment(plan, surroundings);
    expect(outcome).toMatchObject({ tookEffect: false, healed: true });
    expect(outcome.notes.join()).toContain("already disabled or has a toxic, so no fault");
    expect(await left.read()).toMatchObject({ enabled: true, toxics: [] });
  });
});
