import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { afterEach, describe, expect, test } from "vitest";
import { createSecrets } from "../../target/secrets.ts";
import { createBudget } from "../planning/needs.ts";
import { addressFinding, candidatesOf, findBaseUrl, probeAddress, serverOfEverything } from "./find-base-url.ts";
import { withSingleCalls } from "./single-calls.ts";

let server: Server | undefined;
let asked: IncomingMessage[] = [];
afterEach(async () => {
  server?.closeAllConnections();
  await new Promise((resolve) => (server === undefined ? resolve(null) : server.close(resolve)));
  server = undefined;
  asked = [];
});

const listen = async (answer: (path: string, res: ServerResponse) => void): Promise<string> => {
  server = createServer((req, res) => {
    asked.push(req);
    req.resume().on("end", () => answer(req.url ?? "", res));
  });
  await new Promise<void>((resolve) => server?.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
};

const json = (res: ServerResponse, status: number, body: object): void => {
  res.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
};

/** The API below one path: its routes are refused without a credential, everything else is not there. */
const apiBelow =
  (base: string) =>
  (path: string, res: ServerResponse): void => {
    const isRoute = path.startsWith(`${base}/design/`) || path.startsWith(`${base}/shared-api/`);
    json(res, isRoute ? 401 : 404, isRoute ? {} : { detail: "Not Found" });
  };

const found = async (url: string) => (await findBaseUrl(url, {}, "/")).found?.url;

describe("where the API is", () => {
  test.each([
    ["http://h/v1", ["http://h/v1", "http://h"]],
    ["http://h", ["http://h", "http://h/v1"]],
    ["http://h/maps/", ["http://h/maps", "http://h/maps/v1", "http://h/v1"]],
    ["http://h/v1/design/styles", ["http://h/v1", "http://h"]],
    ["http://h/api/v2/sdk/sessions", ["http://h/api/v2", "http://h/api"]],
  ])("of %s it is looked for at %j", (given, candidates) => {
    expect(candidatesOf(given)).toEqual(candidates);
  });

  test.each(["", "/", "/v1", "/v1/", "/v1/design/styles"])("it is found below /v1 when %j was given", async (path) => {
    const origin = await listen(apiBelow("/v1"));
    expect(await found(origin + path)).toBe(`${origin}/v1`);
  });

  test("where every answer is coded, that is what is said", async () => {
    const origin = await listen((_, res) => {
      res.writeHead(401, { "content-type": "application/json", "content-encoding": "gzip" }).end(gzipSync("{}"));
    });
    const probed = await probeAddress(origin, {}, "/");
    expect(probed.findings[0]?.text).toMatch(/answers 401, coded \(gzip\) though every call asks for no coding/);
    expect(probed.findings[0]?.todo).toMatch(/Accept-Encoding: identity/);
    expect(new Set(asked.map(({ headers }) => headers["accept-encoding"]))).toEqual(new Set(["identity"]));
  });

  test.each([
    [200, /answers 200 with an HTML page/, /that of its documentation or console/],
    [503, /answers 503 with an HTML page/, /a gateway answers: is the API behind it running/],
    [401, /answers 401 with an HTML page/, /a credential of its own .*, or put pages in place of refusals/],
    [403, /answers 403 with an HTML page/, /a gateway refuses these calls: have it let them through/],
    [421, /answers 421 with an HTML page/, /by another host name, or by HTTP\/2 alone/],
  ])("a page with status %d is named, with what to look at", async (status, found, todo) => {
    const origin = await listen((_, res) => res.writeHead(status, { "content-type": "text/html" }).end("<p>Hello"));
    const { findings } = await probeAddress(origin, {}, "/");
    expect(findings).toEqual([expect.objectContaining({ text: expect.stringMatching(found) })]);
    expect(findings[0]?.todo).toMatch(todo);
    // A target file is wrong where another server answers, and right where a gateway says that the API is away.
    const target = { schema: "floodgate/target@1", base_url: `${origin}/v1` } as const;
    const seen = await withSingleCalls(target, "/", (calls) => addressFinding(target, "/", calls));
    expect(seen).toMatchObject({ goOn: "no", found: { state: status === 503 ? "silent" : "wrong" } });
  });

  test("without a version segment it is found where it is", async () => {
    const origin = await listen(apiBelow("/maps"));
    expect(await found(`${origin}/maps`)).toBe(`${origin}/maps`);
  });

  test("where every path is refused alike, the version segment belongs to it", async () => {
    const origin = await listen((_path, res) => json(res, 401, {}));
    expect(await found(origin)).toBe(`${origin}/v1`);
  });

  test("a page for people, a 404 everywhere and a redirect are not it", async () => {
    const page = await listen((_path, res) => res.writeHead(200, { "content-type": "text/html" }).end("<html>"));
    expect(await found(page)).toBeUndefined();
    server?.removeAllListeners("request").on("request", (_req, res: ServerResponse) => json(res, 404, {}));
    expect(await found(page)).toBeUndefined();
    server
      ?.removeAllListeners("request")
      .on("request", (_req, res: ServerResponse) =>
        res.writeHead(301, { location: "https://elsewhere.example/" }).end(),
      );
    expect(await found(page)).toBeUndefined();
  });

  test.each(["", ":8443"])("a redirect to https is told with the address that it leads to: port %j", async (port) => {
    const https = `https://127.0.0.1${port}`;
    const origin = await listen((path, res) => res.writeHead(301, { location: https + path }).end());
    const { findings } = await probeAddress(origin, {}, "/", "stated");
    expect(findings[0]?.todo).toContain(`does ${https} answer?`);
  });

  test.each(['{"status":"ok"}', ""])(
    "a server that serves every path, such as a health check, is not it: %j",
    async (body) => {
      const origin = await listen((_path, res) => res.writeHead(200, { "content-type": "application/json" }).end(body));
      expect(await found(origin)).toBeUndefined();
      const { findings } = await probeAddress(origin, {}, "/");
      expect(findings[0]).toMatchObject({
        state: "wrong",
        text: expect.stringContaining("/v1 answers 200 to every path"),
      });
      const target = { schema: "floodgate/target@1", base_url: `${origin}/v1` } as const;
      const ask = async () => {
        const budget = createBudget(target, false);
        const said = await serverOfEverything({ target, secrets: createSecrets("/"), budget });
        return [said, budget.spent.requests];
      };
      const everything = expect.stringMatching(/is not the API: it answers 200 to every call.*health check$/);
      expect(await ask()).toEqual([everything, 2]);
      const { found: seen, goOn } = await withSingleCalls(target, "/", (calls) => addressFinding(target, "/", calls));
      expect([seen.state, goOn, seen.todo]).toEqual(["wrong", "no", expect.stringContaining("health check")]);
      server
        ?.removeAllListeners("request")
        .on("request", (req: IncomingMessage, res: ServerResponse) => apiBelow("/v1")(req.url ?? "", res));
      expect(await ask()).toEqual([null, 1]);
    },
  );

  test("a site that serves the paths that the API beside it has not is no server of everything", async () => {
    const origin = await listen((path, res) => {
      if (path.startsWith("/v1/floodgate-")) res.writeHead(200, { "content-type": "text/html" }).end("<html>");
      else apiBelow("/v1")(path, res);
    });
    const target = { schema: "floodgate/target@1", base_url: `${origin}/v1` } as const;
    const budget = createBudget(target, false);
    expect(await serverOfEverything({ target, secrets: createSecrets("/"), budget })).toBeNull();
    expect(budget.spent.requests).toBe(2);
  });

  test("no call carries a credential, also those that look for tiles and key management", async () => {
    const origin = await listen(apiBelow("/v1"));
    const probed = await probeAddress(origin, {}, "/");
    expect(probed).toMatchObject({ baseUrl: `${origin}/v1`, tileUrl: undefined, keyManagement: true, silent: false });
    expect(asked.length).toBeGreaterThan(4);
    expect(asked.flatMap(({ headers }) => [headers.authorization, headers["x-api-key"]]).filter(Boolean)).toEqual([]);
  });

  test("an address at which nobody listens is silent", async () => {
    const origin = await listen(() => undefined);
    await new Promise((resolve) => server?.close(resolve));
    server = undefined;
    const probed = await probeAddress(origin, {}, "/");
    expect(probed).toMatchObject({ baseUrl: null, silent: true });
    expect(probed.findings[0]?.text).toContain("ECONNREFUSED");
  });
});
