import { expect, test } from "vitest";
import { createSecrets } from "../../target/secrets.ts";
import { protocolFindings } from "./connection.ts";

test("plain HTTP is warned of where keys would leave the machine", async () => {
  const stateOf = async (base_url: string): Promise<unknown> =>
    (await protocolFindings({ schema: "floodgate/target@1", base_url }, createSecrets("/"), 0))[0];
  expect(await stateOf("http://127.0.0.1:1/v1")).toMatchObject({ state: "ok" });
  expect(await stateOf("http://maps.example/v1")).toMatchObject({
    state: "warn",
    text: expect.stringContaining("keys travel to maps.example in clear"),
  });
});
