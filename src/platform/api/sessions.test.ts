import { createSigner } from "fast-jwt";
import { describe, expect, test } from "vitest";
import type { KeySnapshot } from "../../core/call.ts";
import { createSessions, SESSION_ISSUER, sessionClaims } from "./sessions.ts";

const SECRET = "a-secret-for-this-test";
const SNAPSHOT = { key: { id: "key_a", scopes: ["ai", "maps"] }, org: { id: "org_a" } } as unknown as KeySnapshot;
const NOW_S = 1_800_000_000;
const claims = (lifetimeS = 900, mapId: string | null = null) =>
  sessionClaims({ snapshot: SNAPSHOT, product: "chat", mapId, id: "session-1", nowS: NOW_S }, lifetimeS);

describe("session tokens (items 20-29)", () => {
  const sessions = createSessions(SECRET);
  const token = sessions.sign("live", claims());

  test("are a prefix, an environment word and a JWT, and are read back (item 20)", () => {
    expect(token).toMatch(/^svc_sess_live_[\w-]+\.[\w-]+\.[\w-]+$/);
    expect(sessions.read(token, NOW_S)).toEqual({
      keyId: "key_a",
      orgId: "org_a",
      product: "chat",
      expiresAtS: NOW_S + 900,
      id: "session-1",
    });
  });

  test("carry the claims of item 27, and the map's id where one was given (67)", () => {
    expect(Object.keys(claims()).sort()).toEqual(["exp", "iat", "iss", "jti", "org", "product", "scopes", "sub"]);
    expect(claims(900, "map-1").map_id).toBe("map-1");
  });

  test("end at their second, also for a token seen before", () => {
    expect(sessions.read(token, NOW_S + 899)).not.toBeNull();
    expect(sessions.read(token, NOW_S + 900)).toBeNull();
    expect(createSessions(SECRET).read(token, NOW_S + 900)).toBeNull();
  });

  test("of another secret, another algorithm, another issuer or another shape are nothing (item 21)", () => {
    expect(createSessions("another-secret").read(token, NOW_S)).toBeNull();
    const body = token.split(".")[1];
    const none = Buffer.from('{"alg":"none","typ":"JWT"}').toString("base64url");
    for (const forged of [
      `svc_sess_live_${none}.${body}.`,
      `svc_sess_live_${none}.${body}.x`,
      `${token.slice(0, -2)}xx`,
      token.replace("live_", "live"),
      "svc_sess_live_a.b.c",
      `svc_sess_live_${createSigner({ key: SECRET, algorithm: "HS512", kid: "live" })(claims())}`,
      `svc_sess_live_${createSigner({ key: SECRET, algorithm: "HS256", kid: "live" })({ ...claims(), iss: "else" })}`,
      `svc_sess_live_${createSigner({ key: SECRET, algorithm: "HS256", kid: "live" })({ ...claims(), product: "globe" })}`,
      `svc_sess_live_${createSigner({ key: SECRET, algorithm: "HS256", kid: "live" })({ iss: SESSION_ISSUER })}`,
    ]) {
      expect(sessions.read(forged, NOW_S), forged).toBeNull();
    }
  });

  test("of another environment than they were signed for are nothing, whichever word stands there", () => {
    const jwt = token.replace("svc_sess_live_", "");
    const tested = sessions.sign("test", claims());
    expect(sessions.read(tested, NOW_S)).not.toBeNull();
    for (const env of ["test", "prod", "livetest", "l", "x".repeat(40)])
      expect(sessions.read(`svc_sess_${env}_${jwt}`, NOW_S), env).toBeNull();
    expect(sessions.read(tested.replace("_test_", "_live_"), NOW_S)).toBeNull();
    const unnamed = createSigner({ key: SECRET, algorithm: "HS256" })(claims());
    expect(sessions.read(`svc_sess_live_${unnamed}`, NOW_S)).toBeNull();
  });

  test("memory of tokens is bounded", () => {
    const small = createSessions(SECRET);
    for (let i = 0; i < 10_100; i += 1) {
      const one = small.sign("live", { ...claims(), jti: `s${i}` });
      expect(small.read(one, NOW_S)?.id).toBe(`s${i}`);
    }
  });
});
