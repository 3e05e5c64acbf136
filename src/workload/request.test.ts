import { describe, expect, test } from "vitest";
import { credentialKind } from "../contract/credentials.ts";
import { callId, credentialName, GARBAGE_KEY, headersOf, stepOf, UNKNOWN_KEYS, urlOf } from "./step.ts";

const view = { tenants: [], roles: {}, limits: {}, permits: { writes: false, quotaBurn: false } };
const parts = { id: "r-s-1", credential: "k", listedOrigin: undefined, shared: { "x-canary": "1" } };

describe("what goes over the wire", () => {
  test("keys of nobody have the shape that they are meant to have", () => {
    expect(credentialKind(GARBAGE_KEY)).toBe("unknown");
    expect(credentialKind(UNKNOWN_KEYS.publishable)).toBe("publishable");
    expect(credentialKind(UNKNOWN_KEYS.server)).toBe("server");
  });

  test("a step's own headers win over the target file's, and those over ours", () => {
    const step = stepOf(view, 0, { route: "design.styles", credential: { as: "none" } });
    const headers = headersOf(
      { ...step, headers: { "X-Canary": "2" } },
      { ...parts, shared: { accept: "x/y", "x-canary": "1" } },
    );
    expect(headers).toMatchObject({ accept: "x/y", "x-canary": "2", "x-request-id": "r-s-1" });
  });

  test("a listed origin that nobody knows is no origin at all", () => {
    const of = { as: "publishable", of: "role:publishable" } as const;
    const step = stepOf(view, 0, { route: "sdk.sessions", credential: of, origin: "listed" });
    expect(headersOf(step, parts)).toBeNull();
    expect(headersOf(step, { ...parts, listedOrigin: "https://a.example" })).toMatchObject({
      origin: "https://a.example",
    });
    const nobody = stepOf(view, 0, { route: "sdk.sessions", credential: { as: "none" }, origin: "listed" });
    expect(headersOf(nobody, { ...parts, credential: null })).toHaveProperty("origin");
  });

  test("key management has its own place where there is one", () => {
    const step = stepOf(view, 0, { route: "keys.create", credential: { as: "none" } });
    const base_url = "http://a/v1/";
    expect(urlOf({ base_url }, step)).toBe("http://a/v1/shared-api/api-keys");
    expect(urlOf({ base_url, key_management_url: "http://b/v1" }, step)).toBe("http://b/v1/shared-api/api-keys");
  });

  test("tiles are asked for where the target says, whatever stands in the place of their numbers", () => {
    const places = { base_url: "http://a/v1", tile_url: "http://t/{z}-{x}-{y}.png" };
    const at = (path: string): string =>
      urlOf(places, stepOf(view, 0, { route: "maps.tiles", credential: { as: "none" }, path }));
    expect(at("/maps/tiles/3/2/1")).toBe("http://t/3-2-1.png");
    expect(at("/maps/tiles/north/-1/0")).toBe("http://t/north--1-0.png");
  });

  test("ids and names tell apart what is apart", () => {
    expect(callId("r-s", 7, 0, 0)).toBe("r-s-7");
    expect(callId("r-s", 7, 1, 2)).toBe("r-s-7_1r2");
    expect(credentialName({ as: "session", of: "tenant:a", product: "chat" })).toBe("session tenant:a chat");
    expect(credentialName({ as: "none" })).toBe("none");
  });
});
