/**
 * An operator who changes the deployment under load, through its control planes. What was set before is read first and written
 * down, so that it can be put back whatever happens: at the end, when a change fails halfway, and after kill -9.
 */

import { controlGet, controlSend } from "../../client/control-planes.ts";
import { type ChangeUndo, stateOfPlane, type Undo } from "../../supervision/undo.ts";
import { pause } from "../../supervision/waiting.ts";
import { TAKE_BACK } from "../take-back.ts";
import type { DisturbanceContext, Disturbed, OperatorChanges } from "./disturbance.ts";
import { undoTarget } from "./link-breaker.ts";

const CALL_MS = 5_000;
const RESTORE_MS = 30_000;

/** Of what will be changed, what can be put back; a failure that is ordered ends by itself. */
const stateBefore = async (apis: readonly string[], fields: ReadonlySet<string>): Promise<ChangeUndo["planes"]> =>
  Promise.all(
    apis.map(async (url, at) => {
      const now = stateOfPlane(await controlGet(`${url}/deployment`));
      const was = Object.fromEntries(Object.entries(now).filter(([field]) => fields.has(field)));
      return { plane: "api" as const, at, was, url };
    }),
  );

const ENDS_BY_ITSELF = "fail_next";

export const changeDeployment = async (
  { changes }: OperatorChanges,
  { signal, deployment, context, stage, onLine }: DisturbanceContext,
): Promise<Disturbed> => {
  const apis = deployment.target.control?.api ?? [];
  const mark = (name: string, detail: string): void =>
    onLine({ type: "mark", stage, name, at_us: context.nowUs(), detail });
  const fields = new Set(changes.flatMap(({ patch }) => Object.keys(patch)));
  const planes = await stateBefore(apis, fields).catch((error: Error) => {
    throw new Error(`nothing was changed, because what is set now cannot be read: ${error.message}`);
  });
  const unknown = [...fields].filter((field) => field !== ENDS_BY_ITSELF && planes.some(({ was }) => !(field in was)));
  if (unknown.length > 0) {
    throw new Error(`nothing was changed, because GET /deployment does not show ${unknown.join(", ")}`);
  }
  const target = undoTarget(deployment);
  const undo: Undo = target === null ? { how: "nothing" } : { how: "deployment", planes, target };
  const name = `service.${[...fields].join("+")}`;
  const id = context.journal.about({ kind: "fault", name, undo });
  const restore = async (): Promise<string> => {
    const limits = { signal: AbortSignal.timeout(RESTORE_MS), callMs: CALL_MS };
    const did = await TAKE_BACK.change({ how: "deployment", planes, target: target ?? { base_url: "" } }, limits);
    context.journal.undone(id, did);
    return did;
  };
  const forget = context.supervisor.registerUndo(
    `put back ${[...fields].join(", ")}`,
    async () => void (await restore()),
  );
  const disturbed: Disturbed = { problems: [], notes: [] };
  const doubt = (reason: string): void => void disturbed.problems.push({ verdict: "inconclusive", reason });
  try {
    for (const { patch, holdMs } of changes) {
      if (signal.aborted) break;
      // Before it, so that every call which meets it comes later.
      mark("operator-changed", Object.keys(patch).join(", "));
      for (const api of apis) await controlSend("PATCH", `${api}/deployment`, patch);
      context.journal.done(id);
      await pause(holdMs, signal);
    }
  } catch (error) {
    doubt(`the deployment could not be changed: ${(error as Error).message}`);
  }
  try {
    await restore();
    forget();
  } catch (error) {
    // Left registered and open in the journal: the end of the run and the watchdog try again.
    doubt(`the change of the deployment could not be taken back: ${(error as Error).message}`);
    disturbed.isLeftBroken = true;
  }
  mark("operator-restored", "");
  return disturbed;
};
