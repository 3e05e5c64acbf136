/** The words of `claims[].code`: why a claim has its verdict, as one word that a program can branch on. */

/** `of`: the verdicts that a word goes with; `open` is inconclusive and skipped. `about`: where to look first. */
type Row = {
  readonly of: readonly ("pass" | "fail" | "open")[];
  readonly about: "deployment" | "edge" | "target file" | "generator" | "machine" | "run" | "specification";
  readonly means: string;
  readonly todo: string;
};

// biome-ignore format: a word is a line
export const REASON_CODES = {
  held: { of: ["pass"], about: "deployment", means: "what the claim states holds", todo: "nothing" },
  recorded: { of: ["pass"], about: "specification", means: "the specification leaves it open, so what came is recorded and not judged", todo: "nothing" },
  broken: { of: ["fail"], about: "deployment", means: "what the claim states does not hold", todo: "look up the claim's evidence in history.ndjson, and run its replay command" },
  "role-missing": { of: ["open"], about: "target file", means: "the target file has no key or token of a role that this needs", todo: "add the role to credentials, or the organizations to tenants" },
  "not-stated": { of: ["open"], about: "target file", means: "the target file or an option does not state a limit, an address or a way to look that this needs", todo: "add what the reason names; `floodgate doctor --find-limits` measures limits" },
  "not-exclusive": { of: ["open"], about: "target file", means: "other callers of the deployment may explain what came", todo: "run while nobody else calls it, and state \"exclusive\": true" },
  "not-permitted": { of: ["open"], about: "target file", means: "no option or permission allows what this does", todo: "give the option or the permission that the reason names" },
  "budget-spent": { of: ["open"], about: "target file", means: "the budget is too small, or is spent", todo: "raise the budget that the reason names" },
  "not-provided": { of: ["open"], about: "deployment", means: "the deployment does not offer what this is about, or offers it otherwise", todo: "nothing, unless it should offer it" },
  "not-answered": { of: ["fail", "open"], about: "deployment", means: "the API, or a service that has to be asked, did not answer", todo: "see whether it runs and can be reached from here" },
  "refused-for-load": { of: ["open"], about: "deployment", means: "the calls that decide were refused for overload, a rate limit or a spent allowance", todo: "run it with less load, or when the allowance is whole again" },
  "key-refused": { of: ["open"], about: "target file", means: "a key or token of the target file is refused", todo: "`floodgate doctor --target FILE` tries each of them" },
  "unclear-answer": { of: ["open"], about: "deployment", means: "the answers that came decide nothing", todo: "run the replay command, and read the answers" },
  ambiguous: { of: ["open"], about: "deployment", means: "what came has another explanation as well, such as a limit that adapts or capacity that moved", todo: "rule out what the reason names" },
  "accounts-differ": { of: ["open"], about: "deployment", means: "two accounts of the same calls or charges contradict each other", todo: "find out which of the two is wrong" },
  "state-unknown": { of: ["open"], about: "deployment", means: "what the deployment holds or has charged could not be read, or was still changing", todo: "see whether its gauges, counts and ledger can be read" },
  "not-healed": { of: ["open"], about: "deployment", means: "a change that this run made may still be there, or the deployment has not recovered from it", todo: "`floodgate chaos --heal`, then look at the deployment" },
  "fault-without-effect": { of: ["open"], about: "deployment", means: "a fault took no effect, or met no call", todo: "see whether it acts on the component that the calls use" },
  "not-seen": { of: ["open"], about: "run", means: "the situation that is judged did not occur", todo: "nothing, or a load that brings it about" },
  "not-reached": { of: ["open"], about: "run", means: "the load did not bring the deployment where the stage needs it", todo: "raise rate or duration; see whether the stated limits are the real ones" },
  "too-few-calls": { of: ["open"], about: "run", means: "there are too few calls, readings or pairs to be certain", todo: "run it for longer" },
  "not-recorded": { of: ["open"], about: "run", means: "the history lacks the calls or the times that this needs: a closed loop, folded calls, totals alone", todo: "use another driver, or a shorter stage" },
  "not-comparable": { of: ["open"], about: "run", means: "one of two sides that are to be compared could not be judged by the same", todo: "state the same in both target files, and measure the same on both sides" },
  "cut-off": { of: ["open"], about: "run", means: "the stage ended before its schedule", todo: "see why, and run it again" },
  stopped: { of: ["open"], about: "run", means: "the run was stopped: by a signal, by its budget or by stop_when", todo: "run it again" },
  "generator-was-the-limit": { of: ["open"], about: "generator", means: "the load generator was late, full or measured wrongly", todo: "use a lower rate, `load --segments` or a larger machine" },
  "machine-disturbed": { of: ["open"], about: "machine", means: "this machine was busy, throttled or stood still", todo: "run it on a machine that does nothing else" },
  "tool-missing": { of: ["open"], about: "machine", means: "a tool that this needs is not on this machine", todo: "`floodgate doctor` says which, and how it is installed" },
  "edge-answered": { of: ["fail", "open"], about: "edge", means: "something in front of the API answered in its place", todo: "try an address behind it, and look at its log" },
  "program-failed": { of: ["open"], about: "run", means: "a program of the run failed: Floodgate itself, k6 or a script", todo: "read the reason; unless it is about a script of yours, report it" },
} as const satisfies Readonly<Record<string, Row>>;

export type ReasonCode = keyof typeof REASON_CODES;

type CodeOf<V> = { [C in ReasonCode]: V extends (typeof REASON_CODES)[C]["of"][number] ? C : never }[ReasonCode];

/** Why a claim could not be judged. */
export type OpenCode = CodeOf<"open">;

/** A verdict with a word that goes with it. */
export type Ruling =
  | { verdict: "pass"; code: CodeOf<"pass"> }
  | { verdict: "fail"; code: CodeOf<"fail"> }
  | { verdict: "inconclusive"; code: OpenCode }
  | { verdict: "skipped"; code: OpenCode };

/** The verdict and the word of a claim or a finding, without the rest. */
export const rulingOf = ({ verdict, code }: Ruling): Ruling => ({ verdict, code }) as Ruling;

export const HELD = { verdict: "pass", code: "held" } as const;
export const BROKEN = { verdict: "fail", code: "broken" } as const;
export const openBy = <C extends OpenCode>(code: C) => ({ verdict: "inconclusive", code }) as const;
export const skippedBy = <C extends OpenCode>(code: C) => ({ verdict: "skipped", code }) as const;
