/** A gateway in front of a deployment that conforms: what it says in the API's place is held against nobody. */
import {
  createServer,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  request,
} from "node:http";
import type { AddressInfo } from "node:net";
import { deflateRawSync } from "node:zlib";
import { expect, test, vi } from "vitest";
import { ORIGIN } from "../../properties/second-api/offer.ts";
import { type SecondApiOptions, startSecondApi } from "../../properties/second-api/start-second-api.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { runVerify, type VerifyOptions, type VerifyResult } from "./run-verify.ts";

type Page = { status: number; type?: string; body?: string | Buffer; headers?: OutgoingHttpHeaders };
/** What a gateway makes of the API's head and of each piece of its body. */
type Change = {
  head?(headers: IncomingHttpHeaders): Record<string, string | string[] | undefined>;
  body?(text: string): string;
};

// Most of it is waiting: each has a deployment of its own, and more of them wait at once than usual.
vi.setConfig({ maxConcurrency: 10 });

type More = Partial<VerifyOptions> & { api?: SecondApiOptions } & Pick<Target, "permits" | "stream_end">;

const HTML = "<html><body><center><h1>nginx</h1></center></body></html>";

/** `pageFor`: what the gateway answers itself; `null` for what it passes on, `reset` for a connection that it closes. */
const verifyBehind = async (
  pageFor: (req: IncomingMessage) => Page | "reset" | null | Promise<null>,
  only?: readonly string[],
  { head = (headers) => headers, body: changed }: Change = {},
  { api: parts = {}, permits, stream_end, ...more }: More = {},
): Promise<VerifyResult> => {
  const api = await startSecondApi(parts);
  const { port, hostname } = new URL(api.target.base_url);
  const server = createServer({ maxHeaderSize: 1 << 20 }, async (req, res) => {
    const page = await pageFor(req);
    if (page === "reset") {
      req.socket.resetAndDestroy();
      return;
    }
    if (page !== null) {
      req.resume();
      const { status, type = "text/html", body = HTML, headers } = page;
      res.writeHead(status, { "content-type": type, ...headers }).end(body);
      return;
    }
    const passed = request(
      { host: hostname, port, method: req.method, path: req.url, headers: req.headers },
      (answer) => {
        const headers = { ...head(answer.headers) } as OutgoingHttpHeaders;
        if (changed !== undefined) delete headers["content-length"];
        res.writeHead(answer.statusCode ?? 500, headers);
        answer.setEncoding("utf8").on("data", (text: string) => res.write(changed?.(text) ?? text));
        answer.on("end", () => res.end());
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
    stream_end,
    permits: { ...api.target.permits, ...permits },
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
      // No month begins within a day, whenever the tests run.
      wallMs: () => Date.UTC(2026, 5, 15),
      ...(only === undefined ? {} : { only }),
      ...more,
    });
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
    await api.close();
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
  ["a page that moved, 301", { status: 301, headers: { location: "https://elsewhere.example/" } }],
  ["a page where one signs in, 200", { status: 200 }],
  ["basic authentication, 401", { status: 401 }],
  ["a fault of its own, 500", { status: 500 }],
  ["a validation of its own, 422", { status: 422 }],
  ["JSON of its own, 400", { status: 400, type: "application/json", body: '{"message":"Bad Request"}' }],
  ["JSON of its own, 403", { status: 403, type: "application/json", body: '{"message":"Forbidden"}' }],
  [
    "a problem document, 403",
    { status: 403, body: '{"type":"about:blank","title":"Forbidden","status":403,"detail":"Access denied"}' },
  ],
  ["a problem document, 400", { status: 400, body: '{"title":"Bad Request","status":400,"detail":"Not understood"}' }],
  ["words of its own in error, 403", { status: 403, type: "application/json", body: '{"error":"Request blocked"}' }],
];

test.concurrent.each(PAGES)("a gateway's answer to some calls is inconclusive and no breach: %s", async (_, page) => {
  const result = await verifyBehind(
    ({ url = "" }) => (url.includes("/poi/") || url.includes("/design/themes") ? page : null),
    ["runtime-admits", "answers-are-json", "envelope-fits-subcode"],
  );
  expect(failed(result)).toEqual([]);
  if (page.headers?.location !== undefined)
    expect(result.claims.map(({ reason }) => reason).join()).toContain("edge 301 to https://elsewhere.example/");
  const admits = result.claims.find(({ id }) => id === "verify/runtime-admits");
  expect(admits).toMatchObject({ verdict: "inconclusive", reason: expect.stringMatching(/gateway's answer/) });
});

test.concurrent("creations of keys that a gateway answers end after a few, because each may have left a key", async () => {
  let creations = 0;
  const isCreation = ({ method, url = "" }: IncomingMessage): boolean => method === "POST" && url.includes("api-keys");
  const { leftOver, claims } = await verifyBehind(
    (req) => {
      if (!isCreation(req)) return null;
      creations += 1;
      return { status: 502 };
    },
    ["management"],
    {},
    { allowWrites: true },
  );
  expect(creations).toBeLessThanOrEqual(12);
  expect(leftOver.length).toBeGreaterThan(0);
  expect(leftOver.length).toBeLessThanOrEqual(creations);
  expect(claims.filter(({ verdict }) => verdict === "fail")).toEqual([]);
  expect(claims.map(({ reason }) => reason).join()).toMatch(/the last \d creations had no clear answer/);
});

const SEVERAL = ["runtime-admits", "missing-credential", "invalid-credential", "forged-session", "no-server-errors"];
const oneInTen = (page: Page) => {
  let calls = 0;
  return () => (calls++ % 10 === 9 ? page : null);
};

test.concurrent.each([
  ["a page in place of a tenth of the answers", { status: 200 }],
  ["a tenth of the calls redirected to a login page", { status: 302, headers: { location: "https://login.example/" } }],
  ["a text in place of a tenth of the answers", { status: 200, type: "text/plain", body: "Service under maintenance" }],
  ["nothing in place of a tenth of the answers", { status: 200, body: "" }],
  ["a tenth of the calls without a route", { status: 404, type: "text/plain", body: "404 page not found" }],
] satisfies [string, Page][])("%s leaves no rule open: the calls are tried again", async (_, page) => {
  const { claims } = await verifyBehind(oneInTen(page), SEVERAL);
  expect(claims.filter(({ verdict }) => verdict !== "pass")).toEqual([]);
});

test.concurrent.each([
  ["Kong", '{"message":"An unexpected error occurred"}'],
  ["Spring", '{"status":500,"error":"Internal Server Error","path":"/v1"}'],
  ["a problem document", '{"title":"Internal Server Error","status":500,"detail":"The upstream failed"}'],
])(
  "a tenth of the answers being a JSON 500 (%s) fails one rule, and neither edge nor API is accused",
  async (_, body) => {
    const result = await verifyBehind(oneInTen({ status: 500, type: "application/json", body }), SEVERAL);
    expect(failed(result)).toEqual([
      expect.stringMatching(/^verify\/no-server-errors: .*\(an edge or the API itself\)/),
    ]);
  },
);

test.concurrent("odd input is not accused of the JSON 500 that an edge answers to a tenth of the calls", async () => {
  let calls = 0;
  const page = { status: 500, type: "application/json", body: '{"message":"An unexpected error occurred"}' };
  // The rule sends large bodies and heads once. With this phase the edge answers some of those.
  const result = await verifyBehind(() => (calls++ % 10 === 4 ? page : null), ["hostile-input"]);
  expect(failed(result)).toEqual([]);
});

const STRANGERS: readonly [string, Page][] = [
  ["maintenance under 200", { status: 200, body: '{"status":"maintenance"}' }],
  [
    "a sign-on of its own",
    { status: 401, body: '{"message":"no SSO session"}', headers: { "www-authenticate": "NTLM" } },
  ],
  ["Spring's 404", { status: 404, body: '{"timestamp":"2026","status":404,"error":"Not Found","path":"/v1"}' }],
];

test.concurrent.each(STRANGERS)("what an edge says in a tenth of the answers condemns no rule: %s", async (_, page) => {
  const result = await verifyBehind(oneInTen({ type: "application/json", ...page }), [
    ...[...SEVERAL, "exchange-mints", "session-origin-mismatch", "mixed-calls"],
    ...["calls-are-answered", "session-lasts", "cors-for-every-answer-to-a-listed-origin"],
  ]);
  expect(failed(result)).toEqual([]);
});

test.concurrent("a success where a refusal is due is told with its body, and fails nothing unless the route answers so", async () => {
  const page = { status: 200, type: "application/json", body: '{"status":"maintenance"}' };
  const behind = await verifyBehind(oneInTen(page), ["invalid-credential"]);
  expect(failed(behind)).toEqual([]);
  const { claims } = await verifyBehind(
    (req) => (/nobody/.test(`${req.headers["x-api-key"]}`) ? page : null),
    ["invalid-credential"],
  );
  expect(claims[0]).toMatchObject({
    verdict: "fail",
    got: expect.stringMatching(/: 200 with the body \{status: "maintenance"\}/),
  });
});

test.concurrent.each(["missing-credential", "invalid-credential", "session-origin-mismatch"])(
  "an analysis that an edge answers once, where a refusal is due, condemns no rule; answered each time, it does: %s",
  async (rule) => {
    const page = { status: 200, type: "application/json", body: '{"status":"maintenance"}' };
    const answering = (most: number) => {
      let analyses = 0;
      return ({ url = "" }: IncomingMessage) => (url.includes("/design/analyze") && analyses++ < most ? page : null);
    };
    const once = await verifyBehind(answering(1), [rule]);
    expect(once.claims).toMatchObject([{ verdict: "pass" }]);
    const always = await verifyBehind(answering(Number.POSITIVE_INFINITY), [rule]);
    expect(failed(always)).toEqual([expect.stringContaining("/design/analyze")]);
  },
);

test.concurrent.each(STRANGERS.slice(0, 2))("a defect of the API is named behind such an edge: %s", async (_, page) => {
  const result = await verifyBehind(
    oneInTen({ type: "application/json", ...page }),
    ["missing-credential", "revoked-key"],
    {},
    { api: { defects: ["serves-revoked", "open-catalogs"] } },
  );
  expect(failed(result).map((text) => text.replace(/:.*/, ""))).toEqual([
    "verify/missing-credential",
    "verify/revoked-key",
  ]);
});

test.concurrent.each([
  [null, "pass", /./],
  [{ status: 502 }, "inconclusive", /; is one of several backends dead/],
  [{ status: 504 }, "inconclusive", /; does the gateway in front give up sooner/],
  [{ status: 503, type: "application/json", body: "{}" }, "inconclusive", /nobody else loads/],
  [{ status: 429 }, "inconclusive", /let the gateway in front pass/],
] as const)(
  "how many calls went without the API's own answer is said, and why that may be: %j",
  async (page, verdict, why) => {
    const { claims } = await verifyBehind(page === null ? () => null : oneInTen(page), [
      ...SEVERAL,
      "calls-are-answered",
    ]);
    const claim = claims.find(({ id }) => id === "verify/calls-are-answered");
    expect(claim).toMatchObject({ level: "should", verdict });
    if (page !== null)
      expect(claim?.reason).toMatch(new RegExp(`^\\d+ of \\d+ calls were .* edge: \\d+ x (edge )?${page.status}`));
    expect(claim?.reason).toMatch(why);
    expect(claims.filter((one) => one.verdict === "fail")).toEqual([]);
  },
);

test.concurrent("a session that ends on the way to the API decides nothing", async () => {
  let sessions = 0;
  const { claims } = await verifyBehind(
    async ({ url, headers: { authorization } }) => {
      const isLate = /styles/.test(`${url}`) && /svc_sess/.test(`${authorization}`) && sessions++ === 0;
      if (isLate) await new Promise((resolve) => setTimeout(resolve, 3_300));
      return null;
    },
    ["either-header", "session-lasts"],
    {},
    { api: { variants: ["short-sessions"] } },
  );
  expect(sessions).toBeGreaterThan(1);
  expect(claims.map(({ id, verdict, reason }) => [id, verdict, reason])).toEqual([
    ["verify/either-header", "pass", expect.anything()],
    ["verify/session-lasts", "pass", expect.anything()],
  ]);
});

test.concurrent("a firewall that resets odd calls is noted once, with their number", async () => {
  const { claims } = await verifyBehind(
    ({ url, rawHeaders }) =>
      /%00|%ff|%zz|\[\]|\.\./i.test(`${url}`) || rawHeaders.join().includes("nonsense") ? "reset" : null,
    ["hostile-input"],
  );
  expect(claims[0]).toMatchObject({
    verdict: "pass",
    reason: expect.stringMatching(
      /; \d\d calls got no whole answer, as a firewall closes a connection: .* and \d+ more$/,
    ),
  });
  expect(claims[0]?.reason.match(/no whole answer/g)).toHaveLength(1);
});

test.concurrent("a 500 that one call always gets is a breach behind such a gateway too", async () => {
  const page = { status: 500, type: "application/json", body: '{"message":"An unexpected error occurred"}' };
  const result = await verifyBehind(
    oneInTen(page),
    ["runtime-admits", "unparsable-session"],
    {},
    { api: { defects: ["500-on-sessions-without-dots"] } },
  );
  expect(failed(result)).toEqual([expect.stringMatching(/^verify\/unparsable-session: .*500/)]);
});

test.concurrent("all rules behind a gateway that answers large heads with a page of its own: none of them fails", async () => {
  const result = await verifyBehind(({ rawHeaders }) =>
    rawHeaders.join("").length > 320 ? { status: 400, body: `<html>Request Header Or Cookie Too Large</html>` } : null,
  );
  expect(failed(result)).toEqual([]);
  expect(
    result.claims.filter(({ verdict, reason }) => verdict === "inconclusive" && /gateway's/.test(reason)),
  ).not.toEqual([]);
  expect(result.claims.filter(({ verdict }) => verdict === "pass").length).toBeGreaterThan(5);
});

const BY_HEADER = [
  ...["either-header", "revoked-key", "publishable-key-at-runtime", "server-key-in-browser", "ip-not-allowed"],
  ...["session-origin-mismatch", "runtime-admits", "mixed-calls"],
];

test.concurrent.each(["authorization", "x-api-key"])(
  "a gateway that removes the header %s fails one rule",
  async (header) => {
    const result = await verifyBehind(
      ({ headers }) => {
        delete headers[header];
        return null;
      },
      BY_HEADER,
      {},
      { api: { defects: ["serves-revoked"] } },
    );
    const failed = result.claims.filter(({ verdict, level }) => verdict === "fail" && level === "must");
    expect(failed.map(({ id }) => id).sort()).toEqual(["verify/either-header", "verify/revoked-key"]);
    expect(claimOf(result, "either-header")?.reason).toMatch(
      new RegExp(`every credential in ${header} is answered 401, .*in front of the API remove that header\\?`, "i"),
    );
    const open = result.claims.filter(({ reason }) => reason.includes("see verify/either-header"));
    expect(open.length).toBeGreaterThan(3);
  },
);

test.concurrent.each([403, 400, 431, 502])(
  "a gateway that lets nothing through is told as such, and nothing is judged: %i",
  async (status) => {
    await expect(verifyBehind(() => ({ status }))).rejects.toThrow(/no call is served at .*edge \d+/);
  },
);

test.concurrent("a JSON 503 to every call is told as such, and nothing is judged", async () => {
  const page = { status: 503, type: "application/json", body: '{"message":"no healthy upstream"}' };
  await expect(verifyBehind(() => page)).rejects.toThrow(/no call is served at .*503/);
});

test.concurrent("a gateway that refuses the long answer of an API which echoes ids is not asked for one", async () => {
  const { claims } = await verifyBehind(
    ({ headers }) => (`${headers["x-request-id"]}`.length > 4_000 ? { status: 502 } : null),
    ["hostile-input"],
  );
  expect(claims.map(({ verdict }) => verdict)).toEqual(["pass"]);
});

test.concurrent("a gateway that asks for a credential of its own fails no rule, and is asked about", async () => {
  const body = '{"statusCode":401,"message":"Access denied due to missing subscription key."}';
  const page = { status: 401, type: "application/json", body };
  const result = await verifyBehind(
    () => page,
    [
      ...["exchange-mints", "exchange-insufficient-scope", "exchange-tier-capability", "quota-exceeded"],
      ...["ip-not-allowed", "runtime-order", "organizations-are-served-alike", "exchange-order-kind-before-origin"],
    ],
  );
  expect(failed(result)).toEqual([]);
  expect(claimOf(result, "exchange-mints")?.reason).toContain(
    "know the key of the role publishable, or does something in front of the API ask for a credential of its own (transport.headers)?",
  );
  expect(claimOf(result, "ip-not-allowed")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringContaining("does something in front of the API ask for a credential of its own"),
  });
});

test.concurrent("a gateway that guards one route in words of its own leaves what needs the route open, and hides no defect elsewhere", async () => {
  const result = await verifyBehind(
    ({ url = "" }) => (url.includes("/poi/") ? { status: 401, type: "text/plain", body: "Unauthorized" } : null),
    ["runtime-admits", "session-origin-mismatch", "revoked-key"],
    {},
    { api: { defects: ["serves-revoked"] } },
  );
  expect(failed(result)).toEqual([expect.stringContaining("verify/revoked-key")]);
  expect(claimOf(result, "session-origin-mismatch")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringMatching(/the API's own 401 is JSON: does something in front .*transport\.headers/),
  });
});

const claimOf = ({ claims }: VerifyResult, id: string) => claims.find((claim) => claim.id === `verify/${id}`);

test.concurrent("a limit under a name that is not the API's is told by one rule, and the calls that met it are tried again", async () => {
  let calls = 0;
  const limited: Page = { status: 429, type: "application/json", body: '{"error":"too_many_requests"}' };
  const result = await verifyBehind(
    () => (calls++ % 4 === 3 ? limited : null),
    ["invalid-credential", "exchange-wrong-kind", "runtime-admits", "subcode-is-in-the-catalogue"],
  );
  expect(failed(result)).toEqual([
    expect.stringMatching(/^verify\/subcode-is-in-the-catalogue: .*"too_many_requests"/),
  ]);
});

test.concurrent.each([
  [
    "outside the API's envelope",
    "Too Many Requests",
    /[1-9]\d* of \d+ calls were answered 429 outside the API's envelope/,
  ],
  ["by the name of overload", "b2b_overloaded", /[1-9]\d* of \d+ calls were answered 429 b2b_overloaded/],
] as const)("a limit of the rate %s is counted where the API's own is not met", async (_, error, said) => {
  let reads = 0;
  const limited: Page = { status: 429, type: "application/json", body: JSON.stringify({ error }) };
  const result = await verifyBehind(
    ({ url = "" }) => (url.endsWith("/design/styles") && reads++ >= 40 ? limited : null),
    ["rate-limit-is-reported"],
    {},
    { allowLoad: true },
  );
  const claim = claimOf(result, "rate-limit-is-reported");
  expect(claim?.verdict).toBe("skipped");
  expect(claim?.reason).toMatch(/no rate limit was met/);
  expect(claim?.reason).toMatch(said);
});

const STREAM_MS = 300;
/** Waves of 8 and 16 streams are enough here, and soon over. */
const withFewWaves = (parts: SecondApiOptions = {}): More => ({
  api: { variants: ["no-rate-limit"], streamMs: STREAM_MS, ...parts },
  permits: { load_max_rps: 20 },
  allowLoad: true,
});
/** A circuit breaker: so many streams pass, and the others are answered in the gateway's words, as Envoy does. */
const breaker = (most: number, page: Page) => {
  let passing = 0;
  return (req: IncomingMessage): Page | null => {
    if (req.url?.endsWith("/chat/control/stream") !== true) return null;
    if (passing >= most) return page;
    passing += 1;
    setTimeout(() => passing--, STREAM_MS);
    return null;
  };
};

test.concurrent.each([
  ["a text", { status: 503, type: "text/plain", body: "upstream connect error or disconnect/reset before headers" }],
  ["JSON of its own", { status: 503, type: "application/json", body: '{"status":503,"message":"overflow"}' }],
] satisfies [string, Page][])("a gateway's 503 over its own limit is no outage of the API: %s", async (_, page) => {
  const head = (headers: IncomingHttpHeaders) => ({ ...headers, "x-upstream-service-time": "3" });
  const result = await verifyBehind(breaker(4, page), ["overload-is-reported"], { head }, withFewWaves());
  expect(claimOf(result, "overload-is-reported")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringMatching(/503.*without the header x-upstream-service-time of the API's own refusals/),
  });
});

test.concurrent("a 503 of the API in place of a shed is named behind a gateway that marks what it passes on", async () => {
  const options = withFewWaves({ defects: ["sheds-with-503"] });
  const head = (headers: IncomingHttpHeaders) => ({ ...headers, "x-upstream-service-time": "3" });
  const result = await verifyBehind(() => null, ["overload-is-reported"], { head }, options);
  expect(failed(result)).toEqual([expect.stringMatching(/^verify\/overload-is-reported: .*503/)]);
});

test.concurrent("a content type that stands twice is read as one, and noted", async () => {
  const result = await verifyBehind(() => null, ["stream-content-type", "stream-frames", "answers-are-json"], {
    head: (headers) => ({ ...headers, "content-type": [headers["content-type"] ?? "", headers["content-type"] ?? ""] }),
  });
  expect(failed(result)).toEqual([]);
  expect(claimOf(result, "stream-frames")?.verdict).toBe("pass");
  expect(claimOf(result, "stream-content-type")?.reason).toContain("Content-Type stands 2 times");
});

test.concurrent("an Access-Control-Allow-Origin that a gateway adds to the API's is shown as it came, because browsers refuse both", async () => {
  const result = await verifyBehind(() => null, ["exchange-mints", "cors-for-every-answer-to-a-listed-origin"], {
    head: (headers) => ({ ...headers, "access-control-allow-origin": [ORIGIN, "*"] }),
  });
  expect(claimOf(result, "cors-for-every-answer-to-a-listed-origin")).toMatchObject({
    verdict: "fail",
    got: expect.stringContaining(`it was ${ORIGIN} and *`),
  });
});

test.concurrent("a byte order mark before JSON hides nothing of it, and is told by its name", async () => {
  const result = await verifyBehind(() => null, ["exchange-mints", "session-token-format", "answers-are-json"], {
    body: (text) => `\ufeff${text}`,
  });
  expect(failed(result)).toEqual([expect.stringMatching(/^verify\/answers-are-json: .*byte order mark/)]);
});

test.concurrent("a gateway's page in the middle of a stream is the gateway's", async () => {
  const result = await verifyBehind(() => null, ["stream-frames", "stream-content-type"], {
    body: (text) => (text.includes("event:") ? `${text}<html><h1>504 Gateway Time-out</h1></html>\n` : text),
  });
  expect(failed(result)).toEqual([]);
  expect(claimOf(result, "stream-frames")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringContaining("an HTML page stands in the middle of the stream"),
  });
});

test.concurrent("a gateway that removes a header and caches the catalogs does not hide which header it is", async () => {
  const stored: Page = { status: 200, type: "application/json", body: "{}", headers: { age: "9" } };
  const result = await verifyBehind(
    ({ url, headers }) => {
      delete headers.authorization;
      return url?.includes("/design/") ? stored : null;
    },
    ["session-insufficient-scope"],
  );
  expect(claimOf(result, "session-insufficient-scope")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringMatching(/^every credential in Authorization is answered 401/),
  });
});

test.concurrent("a request that arrives damaged once accuses nobody; one that is never read fails", async () => {
  const page = { status: 400, type: "application/json", body: '{"detail":"Bad Request"}' };
  let isSent = false;
  const isLone = ({ url, headers: { origin, "content-type": type } }: IncomingMessage): boolean =>
    url?.endsWith("/design/themes") === true && origin === undefined && type === undefined;
  const first = (req: IncomingMessage): Page | null => {
    if (isSent || !isLone(req)) return null;
    isSent = true;
    return page;
  };
  const once = await verifyBehind(first, ["missing-credential"]);
  // The rule is left open, and judged once more at the end.
  expect(isSent).toBe(true);
  expect(claimOf(once, "missing-credential")?.verdict).toBe("pass");
  const each = await verifyBehind((req) => (isLone(req) ? page : null), ["missing-credential"]);
  expect(claimOf(each, "missing-credential")?.verdict).toBe("fail");
});

test.concurrent.each([true, false])(
  "that a gateway puts its page in place of each refusal is told: %j",
  async (replaces) => {
    // As Apache does with ProxyErrorOverride: the status stays, the body goes.
    const { claims } = await verifyBehind(
      () => null,
      ["exchange-wrong-kind", "malformed-exchange-body", "calls-are-answered"],
      {
        body: (text) => (replaces && /^\{("detail"|"error"|\})/.test(text) ? HTML : text),
      },
    );
    const { reason } = claims.find(({ id }) => id === "verify/calls-are-answered") ?? {};
    if (replaces) expect(reason).toMatch(/each refusal came as a page: does something in front of the API replace/);
    else expect(reason).not.toMatch(/each refusal came/);
  },
);

test.concurrent("an allowance whose refusal an edge replaces by its page is told, and not asked for again and again", async () => {
  let mints = 0;
  const hides = (text: string): string => (/map_load_/.test(text) ? HTML : text);
  const { claims } = await verifyBehind(
    ({ url = "" }) => {
      if (url.endsWith("/sdk/sessions")) mints += 1;
      return null;
    },
    ["soft-band-and-hard-stop", "allowance-is-exact"],
    { body: hides },
    { allowQuotaBurn: true, patienceMs: 20_000 },
  );
  for (const { verdict, reason } of claims) {
    expect(verdict).toBe("inconclusive");
    expect(reason).toMatch(
      /edge 429 .*to each try of a mint after \d+ that were admitted: does an edge put this in place/,
    );
  }
  expect(mints).toBeLessThan(200);
});

test.concurrent("a stream whose events come all at once is told with what may hold them back", async () => {
  const api = { defects: ["buffers"], streamMs: 400 };
  const result = await verifyBehind(() => null, ["stream-is-not-buffered"], {}, { api });
  expect(claimOf(result, "stream-is-not-buffered")).toMatchObject({
    verdict: "fail",
    reason: expect.stringMatching(/in front of the API hold events back \(nginx: .*HAProxy: option http-no-delay/),
  });
});

test.concurrent.each([
  [true, "fail"],
  [false, "pass"],
] as const)("a time limit of a gateway that ends each stream is asked about: %j", async (ends, verdict) => {
  const result = await verifyBehind(
    ({ url = "", socket }) => {
      if (ends && url.endsWith("/stream")) setTimeout(() => socket.destroy(), 1_100);
      return null;
    },
    ["stream-is-not-cut-every-time"],
    {},
    { api: { streamMs: 1_600 } },
  );
  const claim = claimOf(result, "stream-is-not-cut-every-time");
  expect(claim?.verdict).toBe(verdict);
  if (ends)
    expect(claim?.reason).toMatch(/each time after about 1\.\d s: does something in front of the API end calls/);
});

test.concurrent.each([
  ["another event as the last", { control: "done", summary: "summary_done", button: "end" }, "fail"],
  ["that event as the last", { control: "token", summary: "token", button: "token" }, "pass"],
  ["no last event", undefined, "pass"],
] as const)(
  "a stream that is cut after its first event, each time, is judged by a file with %s",
  async (_, ends, verdict) => {
    const body = 'event: token\ndata: {"type":"token"}\n\n';
    const headers = { "content-length": 2 * body.length, connection: "close" };
    const result = await verifyBehind(
      ({ url = "" }) => (url.endsWith("/stream") ? { status: 200, type: "text/event-stream", body, headers } : null),
      ["stream-is-not-cut-every-time"],
      {},
      { stream_end: ends },
    );
    expect(claimOf(result, "stream-is-not-cut-every-time")?.verdict).toBe(verdict);
  },
);

test.concurrent.each([
  ["trims the empty line behind the last event", /(event: (?:done|summary_done|end)\ndata: .*\n)\n$/, "$1", "fail"],
  ["adds a comment behind the last event", /(event: (?:done|summary_done|end)\ndata: .*\n\n)$/, "$1: edge 7\n", "pass"],
] as const)("a gateway that %s is judged by what clients lose", async (_, last, instead, verdict) => {
  for (const ends of [undefined, { control: "done", summary: "summary_done", button: "end" }]) {
    const body = (text: string): string => text.replace(last, instead);
    const result = await verifyBehind(() => null, ["stream-is-not-cut-every-time"], { body }, { stream_end: ends });
    const claim = claimOf(result, "stream-is-not-cut-every-time");
    expect(claim?.verdict).toBe(verdict);
    expect(/no empty line ends the last event/.test(claim?.reason ?? "")).toBe(verdict === "fail");
  }
});

test.concurrent("an answer out of a cache is told as such", async () => {
  const cached: Page = { status: 200, type: "application/json", body: '{"styles":[]}', headers: { age: "3" } };
  const result = await verifyBehind(
    ({ url = "" }) => (url.endsWith("/design/styles") ? cached : null),
    ["ip-not-allowed"],
  );
  expect(failed(result)).toEqual([expect.stringContaining("200, out of a cache in between (Age: 3)")]);
  cached.headers = { age: "0" };
  const fresh = await verifyBehind(
    ({ url = "" }) => (url.endsWith("/design/styles") ? cached : null),
    ["ip-not-allowed"],
  );
  expect(failed(fresh)).toEqual([expect.stringContaining("200, through a cache in between (Age: 0)")]);
  let first: Page["headers"];
  const copied = await verifyBehind(
    ({ url = "", headers }) => {
      first ??= { "x-request-id": headers["x-request-id"] };
      return url.endsWith("/design/styles") ? { ...cached, headers: first } : null;
    },
    ["ip-not-allowed"],
  );
  expect(failed(copied)).toEqual([expect.stringMatching(/200.*, with the X-Request-Id of another call, as/)]);
  const reason = claimOf(copied, "ip-not-allowed")?.reason;
  expect(reason).toMatch(/; an answer came with the X-Request-Id of another call, .*: compare with an address behind/);
});

test.concurrent("a gateway that removes the Origin is asked about", async () => {
  const refused: Page = { status: 403, type: "application/json", body: '{"detail":"origin_required"}' };
  const result = await verifyBehind(
    ({ url = "" }) => (url.endsWith("/sdk/sessions") ? refused : null),
    ["exchange-mints"],
  );
  expect(claimOf(result, "exchange-mints")?.reason).toMatch(/does something in front of the API remove that header\?/);
});

test.concurrent("a redirect of every call is told with where it leads", async () => {
  const moved = { status: 301, headers: { location: "https://maps.example/v1/design/styles" } };
  await expect(verifyBehind(() => moved)).rejects.toThrow(
    /every call is redirected \(301 to https:\/\/maps\.example\/.*write the address that it leads to/,
  );
});

test.concurrent("deflate without its wrapper is read, and a coding that the body does not have is told at once", async () => {
  const coded = (coding: string, body: string | Buffer): Page => ({
    status: 401,
    type: "application/json",
    body,
    headers: { "content-encoding": coding },
  });
  const only = ["missing-credential"];
  const raw = await verifyBehind(() => coded("deflate", deflateRawSync("{}")), only);
  expect(claimOf(raw, "missing-credential")?.verdict).toBe("pass");
  await expect(verifyBehind(() => coded("gzip", "{}"), only)).rejects.toThrow(
    /states the content coding gzip, but the body is not coded so/,
  );
});
