/** The API of the TCP proxy that stands in for toxiproxy, as a page in a browser would reach it. */
import { request } from "undici";
import { expect, test } from "vitest";
import { startForTests } from "./toxiproxy.fixture.ts";
import { STAND_IN_PROXY } from "./toxiproxy-server.ts";

test("the stand-in for toxiproxy obeys programs of this machine, and no page in a browser", async () => {
  const { apiUrl, toxiproxy, stop } = await startForTests(...STAND_IN_PROXY);
  try {
    await toxiproxy.createProxy({ name: "link", upstream: "127.0.0.1:1" });
    const statusOf = async (headers: Record<string, string>): Promise<number> => {
      const answer = await request(`${apiUrl}/proxies/link`, { method: "POST", headers, body: '{"enabled":false}' });
      await answer.body.dump();
      return answer.statusCode;
    };
    const json = { "content-type": "application/json" };
    expect(await statusOf({ ...json, host: "evil.example" })).toBe(403);
    expect(await statusOf({ ...json, origin: "https://evil.example" })).toBe(403);
    expect(await statusOf({ ...json, "sec-fetch-site": "cross-site" })).toBe(403);
    expect(await statusOf({ "content-type": "text/plain" })).toBe(415);
    expect((await toxiproxy.proxy("link").read()).enabled).toBe(true);
    expect(await statusOf(json)).toBe(200);
    expect((await toxiproxy.proxy("link").read()).enabled).toBe(false);
  } finally {
    await stop();
  }
});
