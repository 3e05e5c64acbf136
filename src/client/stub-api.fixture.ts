/**
 * A server for tests of the drivers: answers the routes of the contract in the simplest way that is right, on a real
 * socket, and remembers what it was asked. It decides nothing; the reference platform does.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ROUTE_NAMES, routeOf } from "../contract/routes.ts";
import { VOCABULARIES, writeEvent } from "../contract/streams.ts";
import type { Target } from "../target/target.ts";

export type Asked = {
  id: string;
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
  atMs: number;
};

export type StubApi = {
  url: string;
  asked: Asked[];
  /** Answers in place of the usual one; `false` leaves the call to the usual one. */
  instead: (asked: Asked, res: ServerResponse) => boolean;
  /** Seconds that a minted session lives. */
  expiresIn: number;
  /** Milliseconds from the head of a stream to its end. */
  streamMs: number;
  inFlightMax: number;
  target(more?: Partial<Target>): Target;
  close(): Promise<void>;
};

const routeByPath = new Map(
  ROUTE_NAMES.filter((name) => !routeOf(name).path.includes("{")).map((name) => [routeOf(name).path, name]),
);

const tenants = (count: number) =>
  Array.from({ length: count }, (_, k) => ({
    org: `org_t${k}`,
    tier: k % 4 === 0 ? ("Free" as const) : ("Pro" as const),
    limit: k % 4 === 0 ? 20 : 4,
    publishable: { key: `svc_pk_live_tenant${k}`, origin: `https://t${k}.example` },
    server: { key: `svc_sk_live_tenant${k}` },
  }));

export const startStubApi = async (): Promise<StubApi> => {
  const asked: Asked[] = [];
  let inFlight = 0;
  let sessions = 0;
  const stream = (name: "control" | "summary" | "button", res: ServerResponse): void => {
    const { content, done } = VOCABULARIES[name];
    res.writeHead(200, { "content-type": "text/event-stream" });
    res.write(writeEvent(content[0] as string, { text: "a" }));
    setTimeout(() => res.end(writeEvent(content[0] as string, { text: "b" }) + writeEvent(done, {})), stub.streamMs);
  };
  const answer = (call: Asked, res: ServerResponse): void => {
    if (stub.instead(call, res)) return;
    const name = routeByPath.get(call.path.replace(/^\/v1/, "").replace(/\?.*$/, ""));
    const kind = name === undefined ? undefined : routeOf(name).stream;
    if (kind !== undefined) {
      stream(kind, res);
      return;
    }
    res.setHeader("content-type", "application/json");
    if (name === "sdk.sessions") {
      const product = /"product":"(\w+)"/.exec(call.body)?.[1];
      const session_token = `svc_sess_live_aaaaa.bbbbb.s${sessions++}`;
      res.end(JSON.stringify({ session_token, expires_in: stub.expiresIn, product }));
    } else if (name === undefined && !call.path.includes("/maps/tiles/")) {
      res.writeHead(404).end('{"detail":"Not Found"}');
    } else {
      res.end('{"ok":true}');
    }
  };
  const server = createServer((req, res) => {
    inFlight += 1;
    stub.inFlightMax = Math.max(stub.inFlightMax, inFlight);
    res.on("close", () => {
      inFlight -= 1;
    });
    let body = "";
    req.setEncoding("utf8").on("data", (text: string) => {
      body += text;
    });
    req.on("end", () => {
      const { method = "", url = "", headers } = req;
      const call = {
        id: String(headers["x-request-id"] ?? ""),
        method,
        path: url,
        headers,
        body,
        atMs: performance.now(),
      };
      asked.push(call);
      answer(call, res);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const stub: StubApi = {
    url,
    asked,
    instead: () => false,
    expiresIn: 900,
    streamMs: 20,
    inFlightMax: 0,
    target: (more = {}) => ({
      schema: "floodgate/target@1",
      base_url: url,
      limits: { slots: 8, service_ms: 20, global_in_flight: 8, org_in_flight: 4, rate_per_s: 50, burst: 100 },
      tenants: tenants(12),
      credentials: {
        publishable: { key: "svc_pk_live_role", origin: "https://app.example", org: "org_a" },
        server: { key: "svc_sk_live_role", org: "org_a" },
      },
      ...more,
    }),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return stub;
};
