/** Keys that this run creates: written to the journal before each is made, deleted on every way out, else left open in the journal. */

/** The part of the run's journal that `verify` uses. */
export type EffectJournal = {
  /** On disk when it returns. The returned id is passed to `done` and `undone`. */
  about(effect: { kind: "key" | "session"; name: string; detail?: string }): string;
  done(id: string, detail?: string): void;
  undone(id: string, detail?: string): void;
};

export type Effect = {
  /** It was made; `undo` resolves to whether it was removed. */
  happened(detail: string, undo: () => Promise<boolean>): void;
  /** It was not made, or is gone. */
  over(detail: string): void;
  /** It was made and cannot be removed from here. */
  stays(detail: string): void;
};

export type Effects = {
  about(kind: "key" | "session", name: string): Effect;
  /** Undoes everything open, newest first. Returns the names of what could not be removed. */
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
