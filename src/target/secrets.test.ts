import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createSecrets } from "./secrets.ts";

let folder = "";
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-secrets-"));
});
afterAll(() => rm(folder, { recursive: true }));

const jwt = (exp: number): string =>
  `${Buffer.from("{}").toString("base64url")}.${Buffer.from(JSON.stringify({ exp })).toString("base64url")}.c2ln`;

describe("a reference", () => {
  test("to the environment, a file beside the target file, or a command gives its value without white space around it", async () => {
    process.env.FLOODGATE_TEST_KEY = "svc_sk_live_one";
    await writeFile(join(folder, "key.txt"), "svc_sk_live_two\n");
    const secrets = createSecrets(folder);
    expect(await secrets.read("env:FLOODGATE_TEST_KEY", "x")).toBe("svc_sk_live_one");
    expect(await secrets.read("file:key.txt", "x")).toBe("svc_sk_live_two");
    expect(await secrets.read("exec:cat key.txt", "x")).toBe("svc_sk_live_two");
    expect(await secrets.read("svc_sk_live_three", "x")).toBe("svc_sk_live_three");
    delete process.env.FLOODGATE_TEST_KEY;
  });

  test("is read once, and again after it was refused", async () => {
    const secrets = createSecrets(folder);
    const ref = "exec:echo x >> times; wc -l < times";
    expect(await secrets.read(ref, "x")).toBe("1");
    expect(await secrets.read(ref, "x")).toBe("1");
    secrets.forget(ref);
    expect(await secrets.read(ref, "x")).toBe("2");
  });

  test("to a token that has ended, or is about to, is read again", async () => {
    const secrets = createSecrets(folder);
    const soon = Math.floor(Date.now() / 1000);
    const file = join(folder, "token");
    await writeFile(file, jwt(soon + 5));
    await secrets.read("file:token", "x");
    await writeFile(file, jwt(soon + 3600));
    expect(await secrets.read("file:token", "x")).toBe(jwt(soon + 3600));
    await writeFile(file, jwt(soon + 7200));
    expect(await secrets.read("file:token", "x")).toBe(jwt(soon + 3600));
  });

  test("that fails names the role and what was expected, and is tried again", async () => {
    const secrets = createSecrets(folder);
    await expect(secrets.read("env:FLOODGATE_UNSET", "credentials.server.key")).rejects.toThrow(
      /credentials\.server\.key: expected the environment variable FLOODGATE_UNSET/,
    );
    await expect(secrets.read("file:nowhere", "tenants (org_a).server.key")).rejects.toThrow(
      /tenants \(org_a\)\.server\.key: expected a readable file .*there is no such file/,
    );
    await expect(secrets.read("exec:true", "x")).rejects.toThrow(/it was empty/);
    process.env.FLOODGATE_UNSET = "now";
    expect(await secrets.read("env:FLOODGATE_UNSET", "x")).toBe("now");
    delete process.env.FLOODGATE_UNSET;
  });

  test("whose command fails is told by its code, not by what it printed", async () => {
    const secrets = createSecrets(folder);
    const failing = secrets.read("exec:echo svc_sk_live_topsecret; exit 3", "credentials.server.key");
    await expect(failing).rejects.toThrow(/it ended with code 3/);
    await expect(failing).rejects.not.toThrow(/topsecret/);
  });

  test("to a command that leaves something behind which holds its output is read when the command ends", async () => {
    const ref = "exec:echo svc_sk_live_four; sleep 300 & echo $! > left";
    try {
      expect(await createSecrets(folder).read(ref, "x")).toBe("svc_sk_live_four");
    } finally {
      process.kill(Number(await readFile(join(folder, "left"), "utf8")));
    }
  });

  test("to a command that prints without end, or to what is no file, is refused by name", async () => {
    const secrets = createSecrets(folder);
    await expect(secrets.read("exec:cat /dev/zero", "x")).rejects.toThrow(/it printed more than \d+ characters/);
    await expect(secrets.read("file:/dev/zero", "x")).rejects.toThrow(/it is a device, not a file/);
    await expect(secrets.read("file:.", "x")).rejects.toThrow(/it is a folder, not a file/);
  });
});
