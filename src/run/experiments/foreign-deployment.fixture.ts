/**
 * For tests: a deployment that is not the runner's, behind a toxiproxy that others use too. Real processes, started by the
 * test and not by the run; the target file names the proxies and no control plane.
 */
import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { openEmbedded, type RunEvents } from "../../deployments/deployment.ts";
import { openJournal, readJournal } from "../../supervision/journal.ts";
import { Redactor } from "../../supervision/redaction.ts";
import { openSupervisor } from "../../supervision/supervisor.ts";
import type { Target } from "../../target/target.ts";
import type { ProxyState, Toxiproxy } from "../../tools/toxiproxy.ts";
import { makeRunFolder } from "../recorder.ts";

export type ForeignDeployment = {
  target: Target;
  toxiproxy: Toxiproxy;
  /** Of the process of a role: `limiter`, `keys`, `api`. */
  pidOf(role: string): number;
  /** Writes a target file with these changes, and returns its path. */
  targetFile(name: string, changes?: Partial<Target>): string;
  /** The proxy that nobody may touch, as it is now. */
  stranger(): Promise<ProxyState>;
  stop(): Promise<void>;
};

export const startForeign = async (folder: string, toxiproxyPath: string): Promise<ForeignDeployment> => {
  const redactor = new Redactor();
  const run = makeRunFolder({ profile: "theirs", now: new Date(), reports: folder, out: join(folder, "theirs") });
  const journal = openJournal(run.pathOf("journal.ndjson"), redactor);
  const supervisor = await openSupervisor({ journal, watchdog: null });
  const quiet = { step: () => undefined } as unknown as RunEvents;
  const theirs = { supervisor, folder: run, seed: 1, events: quiet, toolOrStandIn: async () => toxiproxyPath };
  const { target, faults } = await openEmbedded(theirs, { limiter: "sqlite" });
  const control = faults?.toxiproxy as Toxiproxy;
  await control.createProxy({
    name: "stranger",
    upstream: faults?.links.limiter?.listen as string,
  });
  await control.proxy("stranger").addToxic({
    name: "theirs",
    type: "latency",
    stream: "downstream",
    attributes: { latency: 7, jitter: 0 },
  });
  await control.proxy("stranger").setEnabled(false);
  const { control: _control, exclusive: _exclusive, ...stated } = target;
  return {
    target: stated,
    toxiproxy: control,
    pidOf: (role) => {
      const started = readJournal(journal.path).entries.find(({ name, phase }) => name === role && phase === "done");
      if (started?.undo?.how !== "end-process") throw new Error(`the fixture started no ${role}`);
      return started.undo.pid;
    },
    targetFile: (name, changes = {}) => {
      const path = join(folder, name);
      writeFileSync(path, JSON.stringify({ ...stated, name: "theirs", ...changes }));
      chmodSync(path, 0o600);
      return path;
    },
    stranger: () => control.proxy("stranger").read(),
    stop: async () => {
      await supervisor.close();
      journal.close();
    },
  };
};
