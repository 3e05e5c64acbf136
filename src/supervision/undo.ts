/**
 * How a side effect is taken back, as data: written down before the side effect is done, so that another process can do
 * it when the runner is gone. It holds no secret and needs nothing that lived in the runner.
 */
export type Undo =
  /**
   * Toxics off and proxy enabled. `may_reset` is false on a server shared with others (see healing.ts), `disables` where the
   * fault leaves the proxy enabled.
   */
  | { how: "heal-proxy"; api_url: string; proxy: string; may_reset: boolean; disables?: boolean }
  | { how: "remove-proxy"; api_url: string; proxy: string }
  /** A deployment's own way: commands for the shell, one after the other, in the folder of the target file. */
  | { how: "command"; commands: string[]; cwd?: string }
  /** For a process that was stopped. `start` distinguishes it from a later process of the same number. */
  | { how: "signal"; pid: number; start: string; signal: "SIGCONT" }
  /** A process of ours that is still there, with its group. */
  | { how: "end-process"; pid: number; start: string; pgid: number; end_last: boolean }
  /** A folder of ours that holds secrets, or a lock file, after the processes that write into it. */
  | { how: "remove-folder"; path: string }
  /** Several, the last of them first; one that cannot be taken back does not keep the others. */
  | { how: "all"; undos: Undo[] }
  | { how: "nothing" };

/** The journal as an experiment sees it. `about` returns only when the entry is on disk. */
export type SideEffects = {
  about: (effect: { kind: "fault"; name: string; undo: Undo }) => string;
  done: (id: string) => void;
  undone: (id: string, detail?: string) => void;
};
