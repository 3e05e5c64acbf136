/** `PATCH /deployment` changes every part of a process or none, and says which. */
import { request } from "node:http";
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type ControlPart, type SaveOffset, startControlPlane } from "./control-plane.ts";
import { type HttpService, route } from "./links/http-service.ts";
import { type Clock, shiftableClock } from "./ports.ts";

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

/** A part that keeps what it was told to apply. */
const part = (name: string) => {
  const applied: unknown[] = [];
  const control: ControlPart = {
    routes: [route("GET", `/${name}`, () => name)],
    change: (change) => void applied.push(change),
    deployment: () => ({ [name]: applied.length }),
  };
  return { control, applied };
};

const start = async (parts: ControlPart[], saveOffset?: SaveOffset, host = "127.0.0.1"): Promise<Clock> => {
  const clock = shiftableClock();
  service = await startControlPlane({ host, port: 0, token: TOKEN, parts, clock, saveOffset });
  return clock;
};

test("one control plane serves the parts of one process, and each sees a change of the deployment", async () => {
  const clock = await start([part("a").control, part("b").control]);
  expect(new URL(service?.url as string).hostname).toBe("127.0.0.1");
  expect(await (await fetch(`${service?.url}/b`, { headers: OPERATOR })).json()).toBe("b");
  expect((await patch('{"clock_offset_ms":5}')).json).toEqual({ clock_offset_ms: 5, a: 1, b: 1 });
  expect(clock.offsetMs()).toBe(5);
  expect((await patch("[]")).status).toBe(422);
});

test.each([
  ['{"sessions":"y","clock_offset_ms":1}', "/sessions"],
  ['{"clock_offset_ms":1,"upstreams":[]}', "/upstreams must not have fewer"],
  ['{"upstreams":["http://replica/v1"]}', "/upstreams/0"],
  ['{"clock_offset_ms":1,"fail_next":{"route":"chat.control","mode":"reset"}}', "/fail_next"],
  ['{"slots":-1}', "/slots"],
  ['{"service_factor":0}', "/service_factor"],
])("a change with one field that does not fit changes nothing anywhere: %s", async (body, why) => {
  const [first, second] = [part("first"), part("second")];
  const clock = await start([first.control, second.control]);
  const { status, json } = await patch(body);
  expect([status, json.error]).toEqual([422, expect.stringContaining(why)]);
  expect([first.applied, second.applied, clock.offsetMs()]).toEqual([[], [], 0]);
  expect((await patch('{"sessions":"disabled"}')).status).toBe(200);
  expect([first.applied, second.applied]).toEqual([[{ sessions: "disabled" }], [{ sessions: "disabled" }]]);
});

test("a field that no role knows is told, and changes nothing", async () => {
  const { control, applied } = part("a");
  await start([control]);
  const { status, json } = await patch('{"clock_offset_ms":1,"clock_ofset_ms":2}');
  expect([status, applied]).toEqual([422, []]);
  expect(json.error).toContain("clock_ofset_ms");
});

/** A store that keeps the clock's offset, and can lose the reply or be gone. */
const store = ({ writesFirst, restores }: { writesFirst: boolean; restores: boolean }) => {
  const kept = { offsetMs: 0 };
  const save: SaveOffset = async (offsetMs) => {
    const isRestored = offsetMs === 0;
    if (isRestored ? restores : writesFirst) kept.offsetMs = offsetMs;
    if (!isRestored) throw new Error("no reply");
    if (!restores) throw new Error("gone");
  };
  return { kept, save };
};

test("where the store fails, what was saved is taken back, nothing is applied, and the answer says so", async () => {
  for (const writesFirst of [false, true]) {
    const { kept, save } = store({ writesFirst, restores: true });
    const { control, applied } = part("a");
    const clock = await start([control], save);
    const { status, json } = await patch('{"clock_offset_ms":7}');
    expect([status, kept.offsetMs, applied, clock.offsetMs()]).toEqual([503, 0, [], 0]);
    expect(json.error).toContain("nothing was changed");
    await service?.close();
  }
});

test("where taking back fails too, the answer says what may be left and what to do", async () => {
  const { kept, save } = store({ writesFirst: true, restores: false });
  const { control, applied } = part("a");
  const clock = await start([control], save);
  const { status, json } = await patch('{"clock_offset_ms":7}');
  expect([status, kept.offsetMs, applied, clock.offsetMs()]).toEqual([503, 7, [], 0]);
  expect(json.error).toContain("send it again");
});

test("changes that come at once are made one after the other", async () => {
  const steps: string[] = [];
  const { control } = part("a");
  const slow: ControlPart = {
    ...control,
    change: ({ clock_offset_ms: of }) => void steps.push(`apply ${of}`),
  };
  await start([slow], async (of) => {
    steps.push(`save ${of}`);
    await new Promise((resolve) => setImmediate(resolve));
  });
  await Promise.all([patch('{"clock_offset_ms":1}'), patch('{"clock_offset_ms":2}'), patch('{"clock_offset_ms":3}')]);
  expect(steps.filter((step) => step.startsWith("save"))).toHaveLength(3);
  for (let at = 0; at < steps.length; at += 2) {
    expect(steps[at + 1]).toBe(steps[at]?.replace("save", "apply"));
  }
});

test("an offset of more than a hundred years is refused, because months have names of four digits", async () => {
  await start([]);
  expect((await patch('{"clock_offset_ms":-3000000000000}')).json).toEqual({ clock_offset_ms: -3_000_000_000_000 });
  for (const offset of ["9e15", "-9e15", "1.5", '"1"', "null"]) {
    const { status, json } = await patch(`{"clock_offset_ms":${offset}}`);
    expect([status, json.error]).toEqual([422, expect.stringContaining("at most a hundred years")]);
  }
});

test("whoever does not send its token is refused, whatever was asked for, and changes nothing", async () => {
  const { control, applied } = part("a");
  await start([control]);
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
  const { control, applied } = part("a");
  beforeEach(async () => {
    applied.length = 0;
    await start([control]);
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
  await start([], undefined, "0.0.0.0");
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
