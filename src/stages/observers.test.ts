import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import type { Target } from "../target/target.ts";
import { observe, readLedgerByCommand } from "./witnesses.ts";

const SAID = "bcndhr-nqzva-Gbxra";

test("what is no JSON is told by its shape, and not quoted: an observer's answer, a line of a ledger", async () => {
  const server = createServer((_, res) => res.end(SAID));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target: Target = {
    schema: "floodgate/target@1",
    base_url: `${url}/v1`,
    observers: { prometheus: { url, queries: { cpu: "up" } }, ledger: `echo ${SAID}` },
  };
  try {
    const { values, troubles } = await observe({ target });
    expect(values).toEqual({});
    const signal = new AbortController().signal;
    const ledger = await readLedgerByCommand({ target, folder: tmpdir() }, "r", 0, signal).catch(
      (error: Error) => error,
    );
    for (const said of [troubles.join(), String(ledger)]) {
      expect(said).toContain("expected a JSON object; got 18 characters");
      expect(said).not.toContain(SAID.slice(0, 6));
    }
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
