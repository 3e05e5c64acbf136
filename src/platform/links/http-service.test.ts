import { afterEach, expect, test } from "vitest";
import { type HttpService, route, startHttpService } from "./http-service.ts";

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
      route("POST", "/slow", async () => {
        arrived();
        await running;
        return { done: true };
      }),
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
      route("POST", "/echo/:id", ({ id, body }) => ({ id, body })),
      route("GET", "/breaks", () => {
        throw new Error("the store is gone");
      }),
    ],
  });
  const post = (path: string, body: string) => fetch(`${service.url}${path}`, { method: "POST", body });
  expect(await (await post("/echo/a%2Fb", "[1]")).json()).toEqual({ id: "a/b", body: [1] });
  expect((await post("/echo/a", "{")).status).toBe(400);
  const page = { method: "POST", body: "[1]", headers: { origin: "https://evil.example" } };
  expect((await fetch(`${service.url}/echo/a`, page)).status).toBe(403);
  expect((await post("/echo/%", "{}")).status).toBe(400);
  expect((await post("/nowhere", "{}")).status).toBe(404);
  expect((await post("/echo/a", `"${"x".repeat(9 * 1024 * 1024)}"`).catch(() => ({ status: 413 }))).status).toBe(413);
  const broken = await fetch(`${service.url}/breaks`);
  expect([broken.status, await broken.json()]).toEqual([500, { error: "the store is gone" }]);
});
