/** Keys that this run creates: written to the journal before each is made, deleted on every way out, else left open in the journal. */
import type { SideEffects } from "../supervision/journal.ts";

export type Effects = ReturnType<typeof createEffects>;
export type Effect = ReturnType<Effects["about"]>;

export const createEffects = (journal?: SideEffects) => {
  const open = new Map<string, { name: string; undo(): Promise<boolean> }>();
  const staying: string[] = [];
  let made = 0;
  const over = (id: string, detail: string): void => {
    open.delete(id);
    journal?.undone(id, detail);
  };
  return {
    about: (kind: "key" | "session", name: string) => {
      const id = journal?.about({ kind, name }) ?? `effect-${made++}`;
      open.set(id, { name, undo: async () => false });
      return {
        /** It was made; `undo` resolves to whether it was removed. */
        happened: (detail: string, undo: () => Promise<boolean>): void => {
          open.set(id, { name, undo });
          journal?.done(id, { detail });
        },
        /** It was not made, or is gone. */
        over: (detail: string): void => over(id, detail),
        /** It was made and cannot be removed from here. */
        stays: (what: string, detail: string): void => {
          open.delete(id);
          staying.push(what);
          journal?.done(id, { detail });
        },
      };
    },
    /** What only an operator can remove. */
    staying: staying as readonly string[],
    /** Undoes everything open, newest first. Returns the names of what could not be removed. */
    takeBackAll: async (): Promise<string[]> => {
      const left: string[] = [];
      for (const [id, { name, undo }] of [...open].reverse()) {
        if (await undo().catch(() => false)) over(id, "taken back");
        else left.push(name);
      }
      return left;
    },
  };
};
