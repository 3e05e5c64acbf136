/** A gateway in front of a deployment that conforms: what it says in the API's place is held against nobody. */
import { createServer, type IncomingMessage, request } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type SecondApi, startSecondApi } from "../../properties/second-api/start-second-api.ts";
import { createSecrets } from "../target/secrets.ts";
import { runVerify, type VerifyResult } from "./run-verify.ts";

type Page = { status: number; type?: string; body?: string; location?: string };

let api: SecondApi;
/** Each has its own rates and slots. */
beforeEach(async () => {
  api = await startSecondApi({});
});
afterEach(() => api.close());

const HTML = "<html><body><center><h1>nginx</h1></center></body></html>";

/** `pageFor`: what the gateway answers itself; `null` for what it passes on. */
const verifyBehind = async (
  pageFor: (req: IncomingMessage) => Page | null,
  only?: readonly string[],
): Promise<VerifyResult> => {
  const { port, hostname } = new URL(api.target.base_url);
  const server = createServer({ maxHeaderSize: 1 << 20 }, (req, res) => {
    const page = pageFor(req);
    if (page !== null) {
      req.resume();
      const { status, type = "text/html", body = HTML, location } = page;
      res.writeHead(status, { "content-type": type, ...(location === undefined ? {} : { location }) }).end(body);
      return;
    }
    const passed = request(
      { host: hostname, port, method: req.method, path: req.url, headers: req.headers },
      (answer) => {
        res.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.pipe(res);
      },
    );
    passed.on("error", () => res.destroy());
    res.on("close", () => passed.destroy());
    req.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const behind = (url: string): string => url.replace(/^http:\/\/[^/]+/, base);
  const { base_url, key_management_url, tile_url } = api.target;
  const target = {
    ...api.target,
    base_url: behind(base_url),
    ...(key_management_url === undefined ? {} : { key_management_url: behind(key_management_url) }),
    ...(tile_url === undefined ? {} : { tile_url: behind(tile_url) }),
  };
  try {
    return await runVerify({
      target,
      secrets: createSecrets("."),
      seed: 7,
      ratePerS: 400,
      patienceMs: 2_000,
      ...(only === undefined ? {} : { only }),
    });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
};

const failed = ({ claims }: VerifyResult): string[] =>
  claims.filter(({ verdict, level }) => verdict === "fail" && level === "must").map(({ id, got }) => `${id}: ${got}`);

const PAGES: readonly [string, Page][] = [
  ["a header that is too large, 400", { status: 400 }],
  ["an address that is blocked, 403", { status: 403 }],
  ["a method that it does not let through, 405", { status: 405 }],
  ["a body that is too large, 413", { status: 413 }],
  ["a line that is too long, 414", { status: 414 }],
  ["too many headers, 431", { status: 431, body: "" }],
  ["a page that moved, 301", { status: 301, location: "https://elsewhere.example/" }],
  ["a page where one signs in, 200", { status: 200 }],
  ["basic authentication, 401", { status: 401 }],
  ["a fault of its own, 500", { status: 500 }],
  ["a validation of its own, 422", { status: 422 }],
  ["JSON of its own, 400", { status: 400, type: "application/json", body: '{"message":"Bad Request"}' }],
  ["JSON of its own, 403", { status: 403, type: "application/json", body: '{"message":"Forbidden"}' }],
];

test.each(PAGES)("a gateway's answer to some calls is inconclusive and no breach: %s", async (_, page) => {
  const result = await verifyBehind(
    ({ url = "" }) => (url.includes("/poi/") || url.includes("/design/themes") ? page : null),
    ["runtime-admits", "answers-are-json", "envelope-fits-subcode"],
  );
  expect(failed(result)).toEqual([]);
  const admits = result.claims.find(({ id }) => id === "verify/runtime-admits");
  expect(admits).toMatchObject({ verdict: "inconclusive", reason: expect.stringMatching(/gateway's answer/) });
});

test("all rules behind a gateway that answers large heads with a page of its own: none of them fails", async () => {
  const result = await verifyBehind(({ rawHeaders }) =>
    rawHeaders.join("").length > 320 ? { status: 400, body: `<html>Request Header Or Cookie Too Large</html>` } : null,
  );
  expect(failed(result)).toEqual([]);
  expect(
    result.claims.filter(({ verdict, reason }) => verdict === "inconclusive" && /gateway's/.test(reason)),
  ).not.toEqual([]);
  expect(result.claims.filter(({ verdict }) => verdict === "pass").length).toBeGreaterThan(5);
}, 60_000);

test.each([403, 400, 431, 502])(
  "a gateway that lets nothing through is told as such, and nothing is judged: %i",
  async (status) => {
    await expect(verifyBehind(() => ({ status }))).rejects.toThrow(/only a gateway answers at .*edge \d+/);
  },
  30_000,
);
