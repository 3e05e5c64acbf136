/**
 * What `doctor` reports, one thing at a time. `ok`: as it should be. `warn`: it works, and a reader should know. `missing`:
 * it is not there and something needs it. `wrong`: it is not what the target file says. `silent`: nobody answers.
 * `skipped`: not tried, with the reason. `info`: a figure, neither good nor bad.
 */
type FindingState = "ok" | "info" | "warn" | "missing" | "wrong" | "silent" | "skipped";

/** `text`: what was found; for what is wrong, what was expected and what came. `todo`: what to do about it. */
export type Finding = {
  readonly state: FindingState;
  readonly name: string;
  readonly text: string;
  readonly todo?: string;
};

export const finding = (state: FindingState, name: string, text: string, todo?: string): Finding =>
  todo === undefined ? { state, name, text } : { state, name, text, todo };

export type Section = { readonly title: string; readonly findings: readonly Finding[] };

export const okIf = (holds: boolean, name: string, text: string, todo: string, ok: FindingState = "ok"): Finding =>
  holds ? finding(ok, name, text) : finding("warn", name, text, todo);

/** What the exit code is made of: a wrong file before a silent target before a missing tool. */
export const worstOf = (sections: readonly Section[]): "wrong" | "silent" | "missing" | null => {
  const states = new Set(sections.flatMap(({ findings }) => findings.map(({ state }) => state)));
  return (["wrong", "silent", "missing"] as const).find((state) => states.has(state)) ?? null;
};
