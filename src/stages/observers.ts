/** What else can be read of a deployment (`observers` of the target file): a Prometheus, and a command that prints charges. */
import { queryPrometheus } from "../client/control-call.ts";
import { chargeOf } from "../client/control-planes.ts";
import { parseJson } from "../contract/envelopes.ts";
import { shapeOfBody } from "../contract/foreign-text.ts";
import type { Deployment } from "../deployments/deployment.ts";
import type { LedgerLine } from "../history/line.ts";
import type { Measurement } from "../history/run-document.ts";
import { runShellCommand } from "../supervision/shell-command.ts";

const LEDGER_MS = 60_000;
/** What is cut off here ends in half a line, which is no ledger. */
const LEDGER_MOST_CHARS = 256 << 20;

export type Observed = Readonly<Record<string, number>>;

/** What a parser says of a text that is no JSON would quote it. */
const jsonOf = <T>(text: string): T => {
  const json = parseJson(text);
  if (typeof json !== "object" || json === null)
    throw new Error(`expected a JSON object; got ${shapeOfBody(text, json)}`);
  return json as T;
};

type Observing = { values: Observed; troubles: string[] };

/** One look at every query. What cannot be read is a note, never a guess. */
export const observe = async ({ target }: Pick<Deployment, "target">): Promise<Observing> => {
  const { url, queries = {} } = target.observers?.prometheus ?? {};
  const values: Record<string, number> = {};
  const troubles: string[] = [];
  if (url === undefined) return { values, troubles };
  const look = async ([name, query]: [string, string]): Promise<void> => {
    try {
      const found = (await queryPrometheus(url, query)).filter(Number.isFinite);
      if (found.length === 0) troubles.push(`observers.prometheus.queries.${name} has no value`);
      else values[name] = found.reduce((sum, one) => sum + one, 0);
    } catch (error) {
      troubles.push(`observers.prometheus.queries.${name} could not be read: ${(error as Error).message}`);
    }
  };
  // Beside each other: one that does not answer costs its deadline once.
  await Promise.all(Object.entries(queries).map(look));
  return { values, troubles };
};

export const observedStage = (stage: string, after: Observing): { measurements: Measurement[]; notes: string[] } => ({
  measurements: Object.entries(after.values).map(([name, value]) => ({
    name: `observed_${name}`,
    stage,
    value,
    unit: "1",
    low: null,
    high: null,
    n: 1,
  })),
  notes: after.troubles.map((trouble) => `${stage}: ${trouble}`),
});

/**
 * Charges that the deployment's own command prints as NDJSON lines of `GET /ledger`: those of our calls, and how many were
 * made since `sinceMs` (milliseconds since 1970) that are not.
 */
export const readLedgerByCommand = async (
  { target, folder }: Pick<Deployment, "target" | "folder">,
  idPrefix: string,
  sinceMs: number,
  signal: AbortSignal,
): Promise<{ ours: LedgerLine[]; others: number } | null> => {
  const command = target.observers?.ledger;
  if (command === undefined) return null;
  let printed = "";
  await runShellCommand(command, {
    what: "command of observers.ledger",
    cwd: folder,
    signal: AbortSignal.any([signal, AbortSignal.timeout(LEDGER_MS)]),
    onOutput: (text, from) => {
      if (from === "output" && printed.length < LEDGER_MOST_CHARS) printed += text;
    },
  });
  const lines = printed
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => chargeOf(jsonOf<LedgerLine>(line)));
  const isOurs = ({ request_id }: LedgerLine): boolean => request_id.startsWith(idPrefix);
  return { ours: lines.filter(isOurs), others: lines.filter((line) => !isOurs(line) && line.at >= sinceMs).length };
};
