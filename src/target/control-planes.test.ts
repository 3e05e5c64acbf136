/** The client of a control plane, against one that has a token. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from "vitest";
import { type Running, startRole } from "../platform/start-role.ts";
import { redact } from "../supervision/redaction.ts";
import { controlSend, readGauges } from "./control-planes.ts";

const TOKEN = "correct-horse-battery";
let running: Running;
let control = "";
beforeAll(async () => {
  running = await startRole("all", { controlPort: 0, controlHost: "0.0.0.0", controlToken: TOKEN, logLevel: "silent" });
  control = `http://127.0.0.1:${new URL(running.urls.control?.api as string).port}`;
});
afterAll(() => running.close());
afterEach(() => vi.unstubAllEnvs());

test("sends the token that the environment has, to read and to write, and masks it from then on", async () => {
  vi.stubEnv("FLOODGATE_CONTROL_TOKEN", TOKEN);
  expect(await readGauges([control])).toMatchObject([{ in_flight: 0 }]);
  expect(await controlSend("POST", `${control}/orgs`, { id: "org_1", tier: "Pro" })).toMatchObject({ id: "org_1" });
  expect(redact(`authorization: Bearer ${TOKEN}`)).toBe("authorization: Bearer [masked]");
});

test.each([undefined, "", "another-token-altogether"])(
  "with %j in its place, the sentence says what to set",
  async (token) => {
    vi.stubEnv("FLOODGATE_CONTROL_TOKEN", token);
    await expect(readGauges([control])).rejects.toThrow("status 401: set FLOODGATE_CONTROL_TOKEN");
  },
);
