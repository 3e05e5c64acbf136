/**
 * `verify` as a run: guard, lock, run folder, rules, reports. The rules themselves are in verify/; what is here is what
 * surrounds them: a journal of what is made on the target, an end on every signal, and files that can be read later.
 */
import { randomBytes } from "node:crypto";
import { createRunClock, wallUs } from "../client/clock.ts";
import type { RunDocument } from "../history/run-document.ts";
import { Journal } from "../supervision/journal.ts";
import { redactor } from "../supervision/redaction.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { lockTarget } from "../target/lock.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { readTargetFile } from "../target/target-file.ts";
import { guardTarget } from "../target/target-guard.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify, type VerifyPlan } from "../verify/plan.ts";
import { RATE_PER_S, runVerify, type VerifyProgress, type VerifyResult } from "../verify/run-verify.ts";
import { composeDocument } from "./compose-document.ts";
import { commitOf, describeEnvironment, REPOSITORY } from "./environment.ts";
import { doubt, judgeSecrets } from "./run-claims.ts";
import { makeRunFolder, type RunFolder } from "./run-folder.ts";
import { effectJournal, verifyOutcome, writeCrashes } from "./verify-stage.ts";
import { writeHistory, writeReports } from "./write-reports.ts";

export type VerifyRunOptions = {
  targetFile: string;
  seed: number;
  reports: string;
  out?: string;
  owned: readonly string[];
  only?: readonly string[];
  skip?: readonly string[];
  ratePerS?: number;
  requireAll: boolean;
  allowWrites: boolean;
  allowQuotaBurn: boolean;
  allowLoad: boolean;
  events: {
    folder(path: string): void;
    warning(text: string): void;
    progress(progress: VerifyProgress): void;
    signalled(signal: NodeJS.Signals, times: number): void;
  };
};

/** Refused by the safety guard: every reason, in sentences. */
export class GuardError extends Error {
  override name = "GuardError";
  constructor(reasons: readonly string[]) {
    super(`refused by the safety guard:\n${reasons.map((reason) => `  ${reason}`).join("\n")}`);
  }
}

/** Calls that a whole pass makes at the most; the budget of the target file bounds it further. */
const CALLS_AT_MOST = 1_200;
const EXIT_OF_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 };

/** Every literal secret of a target file is masked from here on; references are masked when they are read. */
const registerSecrets = (target: Target): void => {
  const values = [
    ...Object.values(target.credentials ?? {}).map((role) => ("token" in role ? role.token : role.key)),
    ...(target.tenants ?? []).flatMap(({ publishable, server }) => [publishable?.key, server?.key]),
    ...Object.values(target.transport?.headers ?? {}),
  ];
  for (const value of values) if (value !== undefined && !/^(env|file|exec):/.test(value)) redactor.register(value);
};

export type PlanOptions = Pick<
  VerifyRunOptions,
  "targetFile" | "owned" | "allowWrites" | "allowQuotaBurn" | "allowLoad"
> & { only: readonly string[] | undefined; skip: readonly string[] | undefined; ratePerS: number | undefined };

/** Reads the target file and nothing else: no secret, no lock, no folder, no call. */
export const planOfTarget = async (
  options: PlanOptions,
): Promise<{ plan: VerifyPlan; refusedByGuard: readonly string[] }> => {
  const { only, skip, owned, ratePerS = RATE_PER_S, allowLoad } = options;
  const rules = chosenRules(only, skip);
  const { target } = await readTargetFile(options.targetFile);
  const guard = guardTarget(target, owned, { load: allowLoad, faults: false, requests: CALLS_AT_MOST });
  return { plan: planVerify(target, rules, { ...options, ratePerS }), refusedByGuard: guard.ok ? [] : guard.reasons };
};

/** Throws what a user has to mend (target file, guard, lock, unreachable); for everything else there is a document. */
export const verifyTarget = async (
  options: VerifyRunOptions,
): Promise<{ document: RunDocument; folder: RunFolder; result: VerifyResult }> => {
  const { seed, events } = options;
  const { target, folder: from, warnings } = await readTargetFile(options.targetFile);
  registerSecrets(target);
  const guard = guardTarget(target, options.owned, { load: options.allowLoad, faults: false, requests: CALLS_AT_MOST });
  if (!guard.ok) throw new GuardError(guard.reasons);
  for (const warning of warnings) events.warning(warning);
  const lock = lockTarget(target.base_url);
  const stop = listenForStop((signal, times) => events.signalled(signal, times));
  try {
    const started = new Date();
    const { reports, out } = options;
    const folder = makeRunFolder({ profile: "verify", now: started, reports, ...(out === undefined ? {} : { out }) });
    events.folder(folder.path);
    const journal = new Journal(folder.pathOf("journal.ndjson"));
    const began = performance.now();
    const result = await runVerify({
      ...{ target, secrets: createSecrets(from), seed, clock: createRunClock(wallUs()) },
      idPrefix: `${randomBytes(3).toString("hex")}.verify.c`,
      ...(options.only === undefined ? {} : { only: options.only }),
      ...(options.skip === undefined ? {} : { skip: options.skip }),
      ...(options.ratePerS === undefined ? {} : { ratePerS: options.ratePerS }),
      ...{ allowWrites: options.allowWrites, allowQuotaBurn: options.allowQuotaBurn, allowLoad: options.allowLoad },
      journal: effectJournal(journal),
      signal: stop.signal,
      onProgress: events.progress,
    }).finally(() => journal.close());
    const by = stop.stoppedBy();
    const replay = `npx floodgate verify --target ${options.targetFile} --seed ${seed}`;
    const doubts = [
      ...(by === null ? [] : [doubt("run/completed", `stopped by ${by}`, "every rule is tried", replay)]),
      ...result.leftOver.map((name) =>
        doubt("run/cleaned-up", `${name} may still be there`, "what was made is gone", replay),
      ),
    ];
    const outcome = verifyOutcome(result, performance.now() - began);
    await writeHistory(folder, [outcome]);
    await writeCrashes(folder, result);
    const claims = [...doubts, ...result.claims, ...judgeSecrets(folder.path, replay)];
    const required = [...(target.required ?? []).filter((name) => name.startsWith("verify"))];
    // What nothing from outside brings about (an error event, a lost key service) no target could meet.
    const idle = new Set(result.idle);
    if (options.requireAll) required.push(...result.claims.map(({ id }) => id).filter((id) => !idle.has(id)));
    const document = composeDocument(
      {
        ...{ id: folder.id, profile: "verify", seed, commit: await commitOf(REPOSITORY) },
        ...{ started, finished: new Date(), target, embedded: false, required },
        environment: describeEnvironment({ k6: null, toxiproxy: null }, []),
        exitCode: by === null ? null : (EXIT_OF_SIGNAL[by] ?? 143),
      },
      [outcome],
      claims,
    );
    await writeReports(folder, document);
    return { document, folder, result };
  } finally {
    stop.release();
    lock.release();
  }
};
