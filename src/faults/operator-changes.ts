/**
 * Changes the deployment under load through its control planes. What is set before is read and journalled first, so that it is
 * restored at the end, after a failed change, and after kill -9.
 */
import { controlGet, controlSend } from "../client/control-planes.ts";
import { type ChangeUndo, stateOfPlane } from "../supervision/undo.ts";
import { pause } from "../supervision/waiting.ts";
import { type DisturbanceContext, type Disturbed, inconclusive, type OperatorChanges } from "./disturbance.ts";
import { UNDO_PORTS } from "./healing.ts";
import { undoTarget } from "./injectors/link.ts";

const CALL_MS = 5_000;
const RESTORE_MS = 30_000;

/** An ordered failure ends by itself; other fields have to be restored. */
const ENDS_BY_ITSELF = "fail_next";

/** The restorable state of the fields. Throws if one is not shown. */
const stateBefore = async (apis: readonly string[], fields: readonly string[]): Promise<ChangeUndo["planes"]> => {
  const planes = await Promise.all(
    apis.map(async (url, at) => {
      const now = stateOfPlane(await controlGet(`${url}/deployment`));
      const was = Object.fromEntries(Object.entries(now).filter(([field]) => fields.includes(field)));
      return { plane: "api" as const, at, was, url };
    }),
  ).catch((error: Error) => {
    throw new Error(`nothing was changed, because what is set now cannot be read: ${error.message}`);
  });
  const unknown = fields.filter((field) => field !== ENDS_BY_ITSELF && planes.some(({ was }) => !(field in was)));
  if (unknown.length === 0) return planes;
  throw new Error(`nothing was changed, because GET /deployment does not show ${unknown.join(", ")}`);
};

export const changeDeployment = async (
  { changes }: OperatorChanges,
  { signal, deployment, context, stage, onLine }: DisturbanceContext,
): Promise<Disturbed> => {
  const apis = deployment.target.control?.api ?? [];
  const mark = (name: string, detail: string): void =>
    onLine({ type: "mark", stage, name, at_us: context.nowUs(), detail });
  const fields = [...new Set(changes.flatMap(({ patch }) => Object.keys(patch)))];
  const planes = await stateBefore(apis, fields);
  const target = undoTarget(deployment);
  const undo: ChangeUndo = { how: "deployment", planes, target: target ?? { base_url: "" } };
  const named = target === null ? ({ how: "nothing" } as const) : undo;
  const id = context.journal.about({ kind: "fault", name: `service.${fields.join("+")}`, undo: named });
  const restore = async (): Promise<void> => {
    const limits = { signal: AbortSignal.timeout(RESTORE_MS), callMs: CALL_MS };
    context.journal.undone(id, await UNDO_PORTS.change(undo, limits));
  };
  const forget = context.supervisor.registerUndo(`put back ${fields.join(", ")}`, restore);
  const doubts: string[] = [];
  let isLeftBroken = false;
  try {
    for (const { patch, holdMs } of changes) {
      if (signal.aborted) break;
      // Before the change, so that every affected call comes later.
      mark("operator-changed", Object.keys(patch).join(", "));
      for (const api of apis) await controlSend("PATCH", `${api}/deployment`, patch);
      context.journal.done(id);
      await pause(holdMs, signal);
    }
  } catch (error) {
    doubts.push(`the deployment could not be changed: ${(error as Error).message}`);
  }
  try {
    await restore();
    forget();
  } catch (error) {
    // Stays registered and open in the journal, so that the end of the run and the watchdog retry it.
    doubts.push(`the change of the deployment could not be undone: ${(error as Error).message}`);
    isLeftBroken = true;
  }
  mark("operator-restored", "");
  return { problems: doubts.map(inconclusive), notes: [], isLeftBroken };
};
