/** Rules of `verify`. `must`: a stated requirement. `should`: an ambiguous one. `info`: a gap, only recorded. */
import type { Level } from "../history/run-document.ts";
import type { Target } from "../target/target.ts";
import { CannotJudge, type Checks, createChecks, type Fits, OPEN, RECORDED, type Verdict } from "./checks.ts";
import type { Context } from "./context.ts";
import type { Needs, Role } from "./planning/needs.ts";
import { FORMS, type TestCall } from "./sending/test-call.ts";

/** Phases in order: rules that change nothing come first, those that spend or load later. */
export const PHASES = [
  ...(["lattice", "order", "bodies", "streams", "meters", "organizations", "management", "gaps"] as const),
  ...(["quota-burn", "load", "every-answer"] as const),
] as const;

export type Phase = (typeof PHASES)[number];

/** The most that a rule sends and spends on a conforming deployment with every role. A test checks the figure. */
export type Cost = Readonly<Partial<Record<"calls" | "map_loads" | "analyses" | "keys", number>>> & {
  /** Rules with the same name share their calls. */
  readonly shared?: string;
};

export type Rule = {
  readonly id: string;
  readonly level: Level;
  readonly spec: readonly number[];
  readonly title: string;
  readonly phase: Phase;
  readonly needs: Needs;
  readonly cost: Cost | ((target: Target) => Cost);
  /** A breach needs no answer of the API (`Claim`), nor a key that is taken. */
  readonly stands_alone?: true;
  run(context: Context): Promise<Verdict>;
};

/** `or`: outcomes that other readings allow. `inEachForm`: sent once in each header that the exchange reads. */
export type Row = readonly [call: TestCall, fits: Fits, or?: Fits, inEachForm?: true];

/** `expected`: what must hold, if the title does not say it. */
type About = { title: string; expected?: string | ((context: Context) => string) } & Partial<
  Pick<Rule, "needs" | "cost" | "stands_alone">
>;
type Listed = About & {
  rows: readonly Row[] | ((context: Context) => readonly Row[] | Promise<readonly Row[]>);
  nothing?: string;
};
type Stepwise = About & {
  /** Judges by `checks`. A returned text is the reason if nothing was checked; a returned verdict is final. */
  // biome-ignore lint/suspicious/noConfusingVoidType: a procedure that says nothing returns nothing
  step(context: Context, checks: Checks): Promise<string | Verdict | undefined | void>;
};

/** All-pairs testing: few rows in which every pair of values of any two factors occurs; greedy, deterministic. */
export const pairwise = <F extends Readonly<Record<string, readonly unknown[]>>>(factors: F) => {
  const product = Object.entries(factors).reduce<object[]>(
    (rows, [name, values]) => rows.flatMap((row) => values.map((value) => ({ ...row, [name]: value }))),
    [{}],
  );
  const rows = product.map((row) => {
    const parts = Object.entries(row).map((part) => JSON.stringify(part));
    const pairs = parts.flatMap((a, i) => parts.slice(i + 1).map((b) => a + b));
    return { row: row as { [K in keyof F]: F[K][number] }, pairs: parts.length === 1 ? parts : pairs };
  });
  const open = new Set(rows.flatMap(({ pairs }) => pairs));
  const chosen: (typeof rows)[number]["row"][] = [];
  while (open.size > 0) {
    const gains = rows.map(({ pairs }) => pairs.filter((pair) => open.has(pair)).length);
    const { row, pairs } = rows[gains.indexOf(Math.max(...gains))] as (typeof rows)[number];
    for (const pair of pairs) open.delete(pair);
    chosen.push(row);
  }
  return chosen;
};

export const all = (calls: readonly TestCall[], fits: Fits, or?: Fits): Row[] => calls.map((call) => [call, fits, or]);

export const inEachForm = (rows: readonly Row[]): Row[] => rows.map(([call, fits, or]) => [call, fits, or, true]);

export const roleOf = ({ credential }: TestCall): Role | null =>
  "of" in credential ? (credential.of.replace(/^role:/, "") as Role) : null;

const needsOf = (rows: readonly Row[]): Needs => {
  const names = [...new Set(rows.map(([call]) => roleOf(call)))];
  const roles = names.filter((name) => name !== null);
  const needs: Needs = rows.some(([{ route }]) => route === "maps.tiles") ? { tileUrl: true } : {};
  // If one call needs no role, the rule can always be tried.
  if (roles.length < names.length) return needs;
  return roles.length === 1 ? { roles, ...needs } : { anyOf: roles, ...needs };
};

const callsOf = (rows: readonly Row[]) => rows.length + rows.filter(([, , , each]) => each).length * (FORMS.length - 1);

const tryRows = async (context: Context, checks: Checks, { rows, nothing }: Listed, open: boolean) => {
  const possible = (typeof rows === "function" ? await rows(context) : rows).filter(([call]) => {
    const role = roleOf(call);
    return role === null || context.has(role);
  });
  const forms = possible.some(([, , , each]) => each) ? await context.exchangeForms() : [];
  const calls = possible.flatMap(([call, fits, or, each]) => {
    const asked = open ? { ...call, open } : call;
    return (each ? forms : [call.form]).map((form) => ({ call: { ...asked, form }, fits, or }));
  });
  let stuck: unknown;
  await context.each(calls, async ({ call, fits, or }) => {
    try {
      checks.expect(await context.send(call), fits, [], or);
    } catch (error) {
      if (!(error instanceof CannotJudge)) throw error;
      stuck ??= error;
    }
  });
  // A call that could not be tried does not hide a breach seen in another.
  if (stuck !== undefined && !checks.failed) throw stuck;
  return nothing;
};

const runOf = (level: Level, about: Listed | Stepwise) => async (context: Context) => {
  const { title, expected = title } = about;
  const checks = createChecks(typeof expected === "string" ? expected : expected(context));
  const isStep = "step" in about;
  const said = await (isStep ? about.step(context, checks) : tryRows(context, checks, about, level !== "must"));
  const { failures, ...found } = typeof said === "object" ? said : checks.result(said ?? undefined);
  if (failures === undefined) return found;
  // A gap in the specification never fails a deployment: the finding is recorded.
  return level === "info" ? { ...found, ...RECORDED, reason: OPEN } : { ...found, failures };
};

type Make = (id: string, spec: readonly number[], about: Listed | Stepwise) => Rule;

/** Makes the rules of one phase. `common` holds their default needs and cost. */
export const rulesOf = (phase: Phase, common: Pick<About, "needs" | "cost"> = {}): Readonly<Record<Level, Make>> => {
  const make =
    (level: Level): Make =>
    (id, spec, about) => {
      const known = "rows" in about && typeof about.rows !== "function" ? about.rows : null;
      const isStated = about.needs?.roles !== undefined || about.needs?.anyOf !== undefined;
      const derived = known === null ? common.needs : needsOf(known);
      const needs = isStated ? (about.needs ?? {}) : { ...derived, ...about.needs };
      const cost = about.cost ?? common.cost ?? {};
      const full = typeof cost === "function" || known === null ? cost : { calls: callsOf(known), ...cost };
      const { title, stands_alone } = about;
      return { id, level, spec, title, phase, needs, cost: full, stands_alone, run: runOf(level, about) };
    };
  return { must: make("must"), should: make("should"), info: make("info") };
};
