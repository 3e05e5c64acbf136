/** What doctor shows of the other addresses of a target file, against a server that sends back what must not be shown. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { expect, test } from "vitest";
import { createSecrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { createBudget } from "../planning/needs.ts";
import { lookAtOthers } from "./connection.ts";
import { openSingleCalls } from "./single-calls.ts";

const SAID = "bcndhr-nqzva-Gbxra";

test.each([
  ["a text that is no JSON", () => SAID],
  [
    "texts in place of numbers and names",
    (path: string) =>
      path === "/proxies"
        ? JSON.stringify({
            [`${SAID} x`]: { name: `${SAID} x`, listen: "127.0.0.1:1", upstream: "", enabled: true, toxics: [] },
          })
        : JSON.stringify({ in_flight: SAID, map_loads_used: SAID, version: `${SAID} x`, data: { result: SAID } }),
  ],
])("no finding quotes what another address says: %s", async (_what, answer) => {
  const server = createServer((req, res) => res.end(answer(req.url ?? "")));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const target: Target = {
    schema: "floodgate/target@1",
    base_url: `${url}/v1`,
    control: { keys: url, limiter: url, api: [url] },
    toxiproxy: { api_url: url, proxies: { edge: "edge" } },
    observers: { prometheus: { url, queries: { cpu: "up" } } },
    credentials: { server: { key: "svc_sk_live_4f9aK2mQx7LpT3vBz8Ns", org: "org_a" } },
  };
  const calls = await openSingleCalls({
    target,
    secrets: createSecrets(tmpdir()),
    budget: createBudget(target, false),
  });
  try {
    const findings = await lookAtOthers(target, calls);
    expect(findings.map(({ name }) => name)).toEqual([
      ...["control.api[0]", "control.limiter", "control.keys", "toxiproxy", "prometheus, cpu"],
    ]);
    expect(JSON.stringify(findings)).not.toContain(SAID.slice(0, 6));
  } finally {
    await calls.close();
    server.closeAllConnections();
    server.close();
  }
});
