/** Keys that were made: journalled before each is done, taken back on every way out, else left open in the journal. */

/** The run's journal, as far as `verify` needs it. */
export type EffectJournal = {
  /** On disk when it returns; the returned id belongs to `done` and `undone`. */
  about(effect: { kind: "key" | "session"; name: string; detail?: string }): string;
  done(id: string, detail?: string): void;
  undone(id: string, detail?: string): void;
};

export type Effect = {
  /** Says how it is taken back; `undo` resolves to `true` when it was. */
  happened(detail: string, undo: () => Promise<boolean>): void;
  /** There is nothing to take back. */
  over(detail: string): void;
  /** It was done, and nothing here can take it back. */
  stays(detail: string): void;
};

export type Effects = {
  about(kind: "key" | "session", name: string): Effect;
  /** Takes back whatever is open, newest first; returns the names of what is still there. */
  takeBackAll(): Promise<string[]>;
};

export const createEffects = (journal?: EffectJournal): Effects => {
  const open = new Map<string, { name: string; undo(): Promise<boolean> }>();
  let made = 0;
  const over = (id: string, detail: string): void => {
    open.delete(id);
    journal?.undone(id, detail);
  };
  const happened = (id: string, name: string, detail: string, undo: () => Promise<boolean>): void => {
    open.set(id, { name, undo });
    journal?.done(id, detail);
  };
  return {
    about: (kind, name) => {
      const id = journal?.about({ kind, name }) ?? `effect-${made++}`;
      open.set(id, { name, undo: async () => false });
      return {
        happened: (detail, undo) => happened(id, name, detail, undo),
        over: (detail) => over(id, detail),
        stays: (detail) => {
          open.delete(id);
          journal?.done(id, detail);
        },
      };
    },
    takeBackAll: async () => {
      const left: string[] = [];
      for (const [id, { name, undo }] of [...open].reverse()) {
        if (await undo().catch(() => false)) over(id, "taken back");
        else left.push(name);
      }
      return left;
    },
  };
};
