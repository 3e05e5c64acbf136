/**
 * `warn`: it works, with a remark. `missing`: it is absent and needed. `wrong`: it differs from the target file. `silent`: no
 * answer came. `skipped`: it was not tried. `info`: neither good nor bad.
 */
type FindingState = "ok" | "info" | "warn" | "missing" | "wrong" | "silent" | "skipped";

/** `text`: what was found, and for a wrong thing what was expected. `todo`: what the user can do. */
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

/** The state that decides the exit code: a wrong file, else a silent target, else a missing tool. */
export const worstOf = (sections: readonly Section[]): "wrong" | "silent" | "missing" | null => {
  const states = new Set(sections.flatMap(({ findings }) => findings.map(({ state }) => state)));
  return (["wrong", "silent", "missing"] as const).find((state) => states.has(state)) ?? null;
};
