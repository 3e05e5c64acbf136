import { afterEach, expect, test } from "vitest";
import { type HttpService, RequestError, startControlPlane, startHttpService } from "./http-service.ts";

let service: HttpService;
afterEach(() => service.close());

test("closing lets a running call finish and refuses new ones", async () => {
  let finish = (): void => {};
  const running = new Promise<void>((resolve) => {
    finish = resolve;
  });
  let arrived = (): void => {};
  const there = new Promise<void>((resolve) => {
    arrived = resolve;
  });
  service = await startHttpService({
    host: "127.0.0.1",
    port: 0,
    routes: [
      {
        method: "POST",
        path: "/slow",
        handle: async () => {
          arrived();
          await running;
          return { status: 200, body: { done: true } };
        },
      },
    ],
  });
  const call = fetch(`${service.url}/slow`, { method: "POST" });
  await there;
  const closed = service.close();
  await expect(fetch(`${service.url}/slow`, { method: "POST" })).rejects.toThrow();
  finish();
  expect(await (await call).json()).toEqual({ done: true });
  await closed;
});

test("a mistake of the caller is told in a sentence, a mistake of ours too, without a stack", async () => {
  service = await startHttpService({
    host: "127.0.0.1",
    port: 0,
    routes: [
      { method: "POST", path: "/echo/{id}", handle: ({ params, body }) => ({ status: 200, body: { params, body } }) },
      {
        method: "GET",
        path: "/breaks",
        handle: () => {
          throw new Error("the store is gone");
        },
      },
    ],
  });
  const post = (path: string, body: string) => fetch(`${service.url}${path}`, { method: "POST", body });
  expect(await (await post("/echo/a%2Fb", "[1]")).json()).toEqual({ params: { id: "a/b" }, body: [1] });
  expect((await post("/echo/a", "{")).status).toBe(400);
  expect((await post("/echo/%", "{}")).status).toBe(400);
  expect((await post("/nowhere", "{}")).status).toBe(404);
  expect((await post("/echo/a", `"${"x".repeat(9 * 1024 * 1024)}"`).catch(() => ({ status: 413 }))).status).toBe(413);
  const broken = await fetch(`${service.url}/breaks`);
  expect([broken.status, await broken.json()]).toEqual([500, { error: "the store is gone" }]);
});

test("one control plane serves the parts of one process, and each sees a change of the deployment", async () => {
  const part = (name: string) => ({
    routes: [{ method: "GET", path: `/${name}`, handle: () => ({ status: 200, body: name }) }],
    readDeployment: (body: Record<string, unknown>) => () => ({ [name]: body.clock_offset_ms }),
  });
  service = await startControlPlane({ port: 0, parts: [part("a"), part("b")] });
  expect(new URL(service.url).hostname).toBe("127.0.0.1");
  expect(await (await fetch(`${service.url}/b`)).json()).toBe("b");
  const patch = (body: string) => fetch(`${service.url}/deployment`, { method: "PATCH", body });
  expect(await (await patch('{"clock_offset_ms":5}')).json()).toEqual({ a: 5, b: 5 });
  expect((await patch("[]")).status).toBe(422);
});

test("a change of the deployment that one part refuses changes no other", async () => {
  const applied: string[] = [];
  const part = (name: string, refused: string) => ({
    routes: [],
    readDeployment: (body: Record<string, unknown>) => {
      if (body.say === refused) throw new RequestError(422, `${name} expected something else`);
      return () => {
        applied.push(name);
        return {};
      };
    },
  });
  service = await startControlPlane({ port: 0, parts: [part("first", "x"), part("second", "y")] });
  const patch = async (body: string) => (await fetch(`${service.url}/deployment`, { method: "PATCH", body })).status;
  expect(await patch('{"say":"y"}')).toBe(422);
  expect(applied).toEqual([]);
  expect(await patch('{"say":"z"}')).toBe(200);
  expect(applied).toEqual(["first", "second"]);
});
