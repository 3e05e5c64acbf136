import { describe, expect, test } from "vitest";
import {
  type CredentialKind,
  credentialKind,
  findSecrets,
  maskCredential,
  maskSecrets,
  splitSessionToken,
} from "./credentials.ts";

const JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJrIn0.c2ln_bmF0-dXJl";

describe("the kind of a credential, by its prefix", () => {
  test.each<[string, string, CredentialKind]>([
    ["a publishable key", "svc_pk_live_0123456789", "publishable"],
    ["without an environment word (item 51)", "svc_pk_0123456789", "publishable"],
    ["a server key", "svc_sk_test_0123456789", "server"],
    ["a session token", `svc_sess_live_${JWT}`, "session"],
    ["a key of 256 characters", `svc_pk_${"a".repeat(249)}`, "publishable"],
    ["a key of 257 characters (item 58)", `svc_pk_${"a".repeat(250)}`, "unknown"],
    ["a key of 8 characters", "svc_pk_a", "publishable"],
    ["a bare prefix", "svc_pk_", "unknown"],
    ["a session token longer than a key may be", `svc_sess_live_${"a".repeat(4_000)}`, "session"],
    ["a session token of more than 4096 characters", `svc_sess_live_${"a".repeat(4_096)}`, "unknown"],
    ["a space inside", "svc_pk_live 0123456789", "unknown"],
    ["another alphabet", "svc_pk_live_ключ", "unknown"],
    ["another vendor's key", "sk_live_0123456789", "unknown"],
    ["a prefix in capitals", "SVC_PK_live_0123456789", "unknown"],
    ["nothing", "", "unknown"],
  ])("%s", (_, credential, kind) => {
    expect(credentialKind(credential)).toBe(kind);
  });
});

describe("a session token is split at the first underscore behind its prefix (item 26)", () => {
  test.each<[string, string, object | null]>([
    ["as made", `svc_sess_live_${JWT}`, { env: "live", jwt: JWT }],
    ["another environment", `svc_sess_canary_${JWT}`, { env: "canary", jwt: JWT }],
    ["a JWT that has underscores itself", `svc_sess_live_${JWT}_`, { env: "live", jwt: `${JWT}_` }],
    ["without an environment", `svc_sess_${JWT}`, null],
    ["with two segments", "svc_sess_live_eyJhbGciOiJI.eyJzdWIi", null],
    ["with four segments", `svc_sess_live_${JWT}.more`, null],
    ["a key", "svc_pk_live_0123456789", null],
  ])("%s", (_, token, parts) => {
    expect(splitSessionToken(token)).toEqual(parts);
  });
});

describe("masking", () => {
  test.each<[string, string, string]>([
    ["a key", "key svc_pk_live_0123456789abcdef used", "key svc_pk_live_...cdef used"],
    ["a key without an environment", "svc_sk_0123456789abcdef", "svc_sk_...cdef"],
    ["a session token whole, its dots included", `Bearer svc_sess_live_${JWT}`, "Bearer svc_sess_live_...dXJl"],
    ["a bare JWT", `token=${JWT}&x=1`, "token=eyJ...dXJl&x=1"],
    ["two in one line", "svc_pk_live_aaaaaaaaaa,svc_sk_live_bbbbbbbbbb", "svc_pk_live_...aaaa,svc_sk_live_...bbbb"],
    ["base64 signs and all", "svc_sk_live_ab+cd/ef==ghij!", "svc_sk_live_...ghij!"],
    ["percent-encoded", "?k=svc_sk_live_ab%2Bcdefghij&x", "?k=svc_sk_live_...ghij&x"],
    ["not what is masked already", "The key was svc_pk_live_...cdef.", "The key was svc_pk_live_...cdef."],
    ["not a bare prefix", "keys begin with svc_pk_ or svc_sk_", "keys begin with svc_pk_ or svc_sk_"],
    ["nothing else", '{"detail":"insufficient_scope"}', '{"detail":"insufficient_scope"}'],
  ])("%s", (_, text, masked) => {
    expect(maskSecrets(text)).toBe(masked);
  });

  test("what stands unmasked is found, and told masked", () => {
    expect(findSecrets(`a svc_pk_live_0123456789 b svc_pk_live_...6789 ${JWT}`)).toEqual([
      "svc_pk_live_...6789",
      "eyJ...dXJl",
    ]);
  });

  test("the last four characters are all that shows of a secret", () => {
    expect(maskCredential("svc_sk_test_0123456789abcdef")).toBe("svc_sk_test_...cdef");
  });
});
