/**
 * Side effects that outlive a call: keys that were made. Each is journalled before it is done and taken back on every way
 * out; what could not be taken back stays open in the journal, for people to see.
 */

/** The run's journal, as far as `verify` needs it (run/journal.ts fits). */
export type EffectJournal = {
  /** On disk when it returns; the returned id belongs to `done` and `undone`. */
  about(effect: { kind: "key" | "session"; name: string; detail?: string }): string;
  done(id: string, detail?: string): void;
  undone(id: string, detail?: string): void;
};

export type Effect = {
  /** Says how it is taken back, once that is known; `true` when it was taken back. */
  happened(detail: string, undo: () => Promise<boolean>): void;
  /** There is nothing (any more) to take back. */
  over(detail: string): void;
  /** It was done, and nothing here can take it back: the journal says so, and nobody tries. */
  stays(detail: string): void;
};

export type Effects = {
  about(kind: "key" | "session", name: string): Effect;
  /** Takes back whatever is open, newest first; gives back what is still there. */
  takeBackAll(): Promise<string[]>;
};

export const createEffects = (journal?: EffectJournal): Effects => {
  const open = new Map<string, { name: string; undo: (() => Promise<boolean>) | null }>();
  let made = 0;
  const close = (id: string, detail: string): void => {
    open.delete(id);
    journal?.undone(id, detail);
  };
  return {
    about: (kind, name) => {
      const id = journal?.about({ kind, name }) ?? `effect-${made++}`;
      open.set(id, { name, undo: null });
      return {
        happened: (detail, undo) => {
          open.set(id, { name, undo });
          journal?.done(id, detail);
        },
        over: (detail) => close(id, detail),
        stays: (detail) => {
          open.delete(id);
          journal?.done(id, detail);
        },
      };
    },
    takeBackAll: async () => {
      const left: string[] = [];
      for (const [id, { name, undo }] of [...open].reverse()) {
        const gone = undo === null ? false : await undo().catch(() => false);
        if (gone) close(id, "taken back");
        else left.push(name);
      }
      return left;
    },
  };
};
