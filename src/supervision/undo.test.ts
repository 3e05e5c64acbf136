import { expect, test } from "vitest";
import { runUndo, type Undo } from "./journal.ts";

const limits = (did: string[]) => ({
  ports: {
    proxy: async (undo: Extract<Undo, { how: "heal-proxy" }>) => {
      if (undo.proxy === "stuck") throw new Error("stuck is stuck");
      did.push(undo.proxy);
      return `healed ${undo.proxy}`;
    },
    change: async () => "",
  },
  signal: new AbortController().signal,
  callMs: 1_000,
  graceMs: 0,
});
const proxy = (name: string): Undo => ({
  how: "heal-proxy",
  api_url: "http://127.0.0.1:1",
  proxy: name,
  disables: false,
  target: { base_url: "http://127.0.0.1:1/v1" },
});

test("several are taken back the last of them first", async () => {
  const did: string[] = [];
  const said = await runUndo({ how: "all", undos: [proxy("a"), proxy("b")] }, limits(did));
  expect(did).toEqual(["b", "a"]);
  expect(said).toBe("healed b, healed a");
});

test("one that cannot be taken back does not keep the others, and is reported", async () => {
  const did: string[] = [];
  const undo: Undo = { how: "all", undos: [proxy("a"), proxy("stuck"), proxy("b")] };
  await expect(runUndo(undo, limits(did))).rejects.toThrow("stuck is stuck");
  expect(did).toEqual(["b", "a"]);
});
