import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { createSecrets } from "./secrets.ts";
import { credentialFinder, readStated } from "./stated-credentials.ts";
import type { Target } from "./target.ts";

const KEY = "svc_sk_live_0123456789abcdefghij";
const folder = mkdtempSync(join(tmpdir(), "floodgate-stated-"));
afterAll(() => rmSync(folder, { recursive: true }));

const read = (ref: string): Promise<string> => {
  const target: Target = {
    schema: "floodgate/target@1",
    base_url: "http://127.0.0.1:1/v1",
    credentials: { server: { key: ref } },
  };
  return readStated(credentialFinder(target).find("role:server", "server"), createSecrets(folder));
};
const ofFile = (text: string): Promise<string> => {
  writeFileSync(join(folder, "key"), text);
  return read("file:key");
};

test.each([`${KEY}\n`, `${KEY}\r\n`, `  ${KEY} `, `\ufeff${KEY}\r\n\r\n`])(
  "a key is taken without what stands around it: %j",
  async (text) => {
    expect(await ofFile(text)).toBe(KEY);
  },
);

test.each([
  [`"${KEY}"`, /quotation marks: leave them out/],
  [`'${KEY}'\r\n`, /quotation marks/],
  [`Bearer ${KEY}`, /begins with Bearer/],
  [`${KEY} # staging`, /a blank or another sign/],
  [`${KEY}\u200b`, /a blank or another sign/],
  [`Password:\n${KEY}\n`, /it has 2 lines: print or write nothing but the value/],
])("what was copied with a key is said, and never sent: %j", async (text, words) => {
  const told = await ofFile(text).catch((error: Error) => error);
  expect(told).toMatchObject({ name: "SecretError", message: expect.stringMatching(words) });
  expect((told as Error).message).toMatch(
    /^credentials\.server: expected a server key \(svc_sk_\.\.\.\) alone, but it /,
  );
  expect((told as Error).message).not.toContain(KEY);
});
