/** Keys that this run creates: journalled before each is made, then deleted, or left open in the journal. */
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
        /** Records that the effect was made; `undo` resolves to whether it was removed. */
        happened: (detail: string, undo: () => Promise<boolean>): void => {
          open.set(id, { name, undo });
          journal?.done(id, { detail });
        },
        /** Records that the effect was not made, or is gone. */
        over: (detail: string): void => over(id, detail),
        /** Records that the effect was made and cannot be removed by the run. */
        stays: (what: string, detail: string): void => {
          open.delete(id);
          staying.push(what);
          journal?.done(id, { detail });
        },
      };
    },
    /** Effects that only an operator can remove, in words. */
    staying: staying as readonly string[],
    /** Undoes every open effect, newest first. Returns the names of those that could not be removed. */
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
