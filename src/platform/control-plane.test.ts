/** `PATCH /deployment` changes every part of a process or none, and says which. */
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ControlPart, type DeploymentChange, readClockOffset, startControlPlane } from "./control-plane.ts";
import { type HttpService, RequestError } from "./links/http-service.ts";

const TOKEN = "correct-horse-battery";
const OPERATOR = { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" };

let service: HttpService | undefined;
afterEach(async () => {
  await service?.close();
  service = undefined;
});

const patch = async (body: string): Promise<{ status: number; json: Record<string, unknown> }> => {
  const answer = await fetch(`${service?.url}/deployment`, { method: "PATCH", headers: OPERATOR, body });
  return { status: answer.status, json: (await answer.json()) as Record<string, unknown> };
};

const part = (change: (body: Record<string, unknown>) => DeploymentChange, routes: ControlPart["routes"] = []) => ({
  routes,
  readDeployment: change,
});

test("one control plane serves the parts of one process, and each sees a change of the deployment", async () => {
  const named = (name: string): ControlPart =>
    part(
      (body) => ({ apply: () => ({ [name]: body.clock_offset_ms }) }),
      [{ method: "GET", path: `/${name}`, handle: () => ({ status: 200, body: name }) }],
    );
  service = await startControlPlane({ port: 0, token: TOKEN, parts: [named("a"), named("b")] });
  expect(new URL(service.url).hostname).toBe("127.0.0.1");
  expect(await (await fetch(`${service.url}/b`, { headers: OPERATOR })).json()).toBe("b");
  expect((await patch('{"clock_offset_ms":5}')).json).toEqual({ a: 5, b: 5 });
  expect((await patch("[]")).status).toBe(422);
});

test("a change of the deployment that one part refuses changes no other", async () => {
  const applied: string[] = [];
  const picky = (name: string, refused: string): ControlPart =>
    part((body) => {
      if (body.sessions === refused) throw new RequestError(422, `${name} expected something else`);
      return {
        apply: () => {
          applied.push(name);
          return {};
        },
      };
    });
  service = await startControlPlane({ port: 0, token: TOKEN, parts: [picky("first", "x"), picky("second", "y")] });
  expect((await patch('{"sessions":"y"}')).status).toBe(422);
  expect(applied).toEqual([]);
  expect((await patch('{"sessions":"z"}')).status).toBe(200);
  expect(applied).toEqual(["first", "second"]);
});

test("a field that no role knows is told, and changes nothing", async () => {
  const applied: unknown[] = [];
  service = await startControlPlane({
    port: 0,
    token: TOKEN,
    parts: [part((body) => ({ apply: () => ({ applied: applied.push(body) }) }))],
  });
  const { status, json } = await patch('{"clock_offset_ms":1,"clock_ofset_ms":2}');
  expect([status, applied]).toEqual([422, []]);
  expect(json.error).toContain("clock_ofset_ms");
});

/** Two stores that keep the clock's offset, the second of which can lose the reply or be gone. */
const stores = (second: { fails: boolean; writesFirst: boolean; restores: boolean }) => {
  const kept = { first: 0, second: 0, applied: 0 };
  const first: ControlPart = part((body) => ({
    save: async () => {
      kept.first = body.clock_offset_ms as number;
    },
    restore: async () => {
      kept.first = 0;
    },
    apply: () => ({ applied: ++kept.applied }),
  }));
  const last: ControlPart = part((body) => ({
    save: async () => {
      if (!second.fails || second.writesFirst) kept.second = body.clock_offset_ms as number;
      if (second.fails) throw new Error("no reply");
    },
    restore: async () => {
      if (!second.restores) throw new Error("gone");
      kept.second = 0;
    },
    apply: () => ({ applied: ++kept.applied }),
  }));
  return { kept, parts: [first, last] };
};

test("where a store fails, what was saved is taken back, nothing is applied, and the answer says so", async () => {
  for (const writesFirst of [false, true]) {
    const { kept, parts } = stores({ fails: true, writesFirst, restores: true });
    service = await startControlPlane({ port: 0, token: TOKEN, parts });
    const { status, json } = await patch('{"clock_offset_ms":7}');
    expect([status, kept]).toEqual([503, { first: 0, second: 0, applied: 0 }]);
    expect(json.error).toContain("nothing was changed");
    await service.close();
  }
});

test("where taking back fails too, the answer says what may be left and what to do", async () => {
  const { kept, parts } = stores({ fails: true, writesFirst: true, restores: false });
  service = await startControlPlane({ port: 0, token: TOKEN, parts });
  const { status, json } = await patch('{"clock_offset_ms":7}');
  expect([status, kept]).toEqual([503, { first: 0, second: 7, applied: 0 }]);
  expect(json.error).toContain("send it again");
});

test("changes that come at once are made one after the other", async () => {
  const steps: string[] = [];
  const slow: ControlPart = part(({ clock_offset_ms: of }) => ({
    save: async () => {
      steps.push(`save ${of}`);
      await new Promise((resolve) => setImmediate(resolve));
    },
    apply: () => ({ steps: steps.push(`apply ${of}`) }),
  }));
  service = await startControlPlane({ port: 0, token: TOKEN, parts: [slow] });
  await Promise.all([patch('{"clock_offset_ms":1}'), patch('{"clock_offset_ms":2}'), patch('{"clock_offset_ms":3}')]);
  expect(steps.filter((step) => step.startsWith("save"))).toHaveLength(3);
  for (let at = 0; at < steps.length; at += 2) {
    expect(steps[at + 1]).toBe(steps[at]?.replace("save", "apply"));
  }
});

test("an offset of more than a hundred years is refused, because months have names of four digits", () => {
  expect(readClockOffset({ clock_offset_ms: -3_000_000_000_000 })).toBe(-3_000_000_000_000);
  for (const offset of [9e15, -9e15, 1.5, "1", null]) {
    expect(() => readClockOffset({ clock_offset_ms: offset })).toThrow("at most a hundred years");
  }
});

test("whoever does not send its token is refused, whatever was asked for, and changes nothing", async () => {
  const applied: unknown[] = [];
  service = await startControlPlane({
    port: 0,
    parts: [part((body) => ({ apply: () => ({ applied: applied.push(body) }) }))],
    token: TOKEN,
  });
  const ask = (method: string, path: string, authorization?: string) =>
    fetch(`${service?.url}${path}`, {
      method,
      headers: { "content-type": "application/json", ...(authorization === undefined ? {} : { authorization }) },
      ...(method === "GET" ? {} : { body: "{}" }),
    });
  const wrong = [undefined, "", TOKEN, `Basic ${TOKEN}`, "Bearer", `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`];
  for (const authorization of wrong) {
    for (const [method, path] of [
      ["PATCH", "/deployment"],
      ["GET", "/health"],
      ["GET", "/nowhere"],
    ] as const) {
      const answer = await ask(method, path, authorization);
      expect([answer.status, answer.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
    }
  }
  expect(applied).toEqual([]);
  expect((await ask("PATCH", "/deployment", `Bearer ${TOKEN}`)).status).toBe(200);
  expect((await ask("PATCH", "/deployment", `bearer ${TOKEN}`)).status).toBe(200);
  expect(applied).toHaveLength(2);
});

/** With headers that `fetch` would not send. */
const knock = (headers: [string, string][], method = "PATCH"): Promise<number> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(service?.url as string);
    const head = [["Host", `127.0.0.1:${port}`], ["Authorization", `Bearer ${TOKEN}`], ...headers];
    const asked = request({ hostname, port, method, path: "/deployment", setHost: false }, (answer) => {
      answer.resume();
      resolve(answer.statusCode as number);
    });
    for (const name of new Set(head.map(([name]) => name as string))) {
      asked.setHeader(
        name,
        head
          .filter((one) => one[0] === name)
          .map((one) => one[1] as string)
          .slice(name === "Host" ? -1 : 0),
      );
    }
    asked.on("error", reject).end(method === "GET" ? undefined : "{}");
  });

describe("a browser that holds the token is refused all the same", () => {
  const JSON_BODY: [string, string] = ["Content-Type", "application/json"];
  const applied: unknown[] = [];
  beforeEach(async () => {
    applied.length = 0;
    service = await startControlPlane({
      port: 0,
      token: TOKEN,
      parts: [part((body) => ({ apply: () => ({ applied: applied.push(body) }) }))],
    });
  });

  test.each<[string, [string, string][], number]>([
    ["a name that was rebound", [JSON_BODY, ["Host", "evil.example"]], 403],
    ["a name that begins like loopback", [JSON_BODY, ["Host", "127.0.0.1.nip.io"]], 403],
    ["a name that ends like loopback", [JSON_BODY, ["Host", "evil.localhost.example:80"]], 403],
    ["another machine's address", [JSON_BODY, ["Host", "10.0.0.1"]], 403],
    ["a user before the host", [JSON_BODY, ["Host", "127.0.0.1@evil.example"]], 403],
    ["an empty Host", [JSON_BODY, ["Host", ""]], 403],
    ["an origin", [JSON_BODY, ["Origin", "https://evil.example"]], 403],
    ["an opaque origin", [JSON_BODY, ["Origin", "null"]], 403],
    ["its own origin", [JSON_BODY, ["Origin", "http://127.0.0.1"]], 403],
    ["a page of another site", [JSON_BODY, ["Sec-Fetch-Site", "cross-site"]], 403],
    ["a page of the same site", [JSON_BODY, ["Sec-Fetch-Site", "same-site"]], 403],
    ["a form", [["Content-Type", "application/x-www-form-urlencoded"]], 415],
    ["plain text", [["Content-Type", "text/plain"]], 415],
    ["text that ends in JSON", [["Content-Type", "text/plain; application/json"]], 415],
    ["a body of no type", [], 415],
  ])("%s", async (_name, headers, status) => {
    expect([await knock(headers), applied]).toEqual([status, []]);
  });

  test.each<[string, [string, string][]]>([
    ["loopback by name", [JSON_BODY, ["Host", "localhost:1"]]],
    ["loopback in IPv6", [JSON_BODY, ["Host", "[::1]"]]],
    ["JSON that names its charset", [["Content-Type", "application/json; charset=utf-8"]]],
  ])("%s is let in", async (_name, headers) => {
    expect(await knock(headers)).toBe(200);
  });

  test("two Host headers are no request", async () => {
    const { hostname, port } = new URL(service?.url as string);
    const heard = await new Promise<string>((resolve) => {
      const socket = connect(Number(port), hostname);
      let text = "";
      socket.on("data", (chunk) => {
        text += chunk;
      });
      socket.on("close", () => resolve(text));
      const lines = ["GET /health HTTP/1.1", "Host: 127.0.0.1", "Host: 127.0.0.1", `Authorization: Bearer ${TOKEN}`];
      socket.end(`${lines.join("\r\n")}\r\n\r\n`);
    });
    expect(heard).toMatch(/^HTTP\/1\.1 400 /);
  });
});

test("beyond loopback it is asked for by address or by a private name, never by a public one", async () => {
  service = await startControlPlane({ host: "0.0.0.0", port: 0, token: TOKEN, parts: [] });
  const by = (host: string) =>
    knock([
      ["Content-Type", "application/json"],
      ["Host", host],
    ]);
  for (const host of ["api-1-control:9000", "10.1.2.3", "[fd00::1]:9000", "keys.prod.svc", "a.internal"])
    expect([host, await by(host)]).toEqual([host, 200]);
  for (const host of ["evil.example", "api.evil.example:9000", "a.internal.example"])
    expect([host, await by(host)]).toEqual([host, 403]);
});
