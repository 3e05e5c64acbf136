/** Rules of verify as the last stage of a suite, on the second deployment of verify's own tests: it is nobody's of ours. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type SecondApi, type SecondApiOptions, startSecondApi } from "../../properties/second-api/start-second-api.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { playQuietly } from "../run/play-quietly.fixture.ts";
import { SUITES } from "../run/suites/suites.ts";
import { verifyCommandOf } from "./play-stages.ts";

/** What the stage says of a deployment that has answered so many calls of nobody. */
const afterCalls = async (calls: number, options: SecondApiOptions, patienceMs = 60_000): Promise<RunDocument> => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-after-load-"));
  const api = await startSecondApi(options);
  try {
    const { target } = api;
    await Promise.all(
      Array.from({ length: calls }, async () => (await fetch(`${target.base_url}/design/styles`)).arrayBuffer()),
    );
    return await playQuietly({
      profile: "after-load",
      folder,
      target,
      replay: "npx floodgate run nightly",
      stages: (given) =>
        (SUITES.get("smoke")?.stages(given) ?? [])
          .filter(({ name }) => name === "after-load")
          .map((stage) => ({ ...stage, patienceMs })),
    });
  } finally {
    await api.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
};
const claimOf = ({ claims }: RunDocument, rule: string): Claim | undefined =>
  claims.find(({ id }) => id === `${rule}/after-load`);

// One after the other: a wave that fills one deployment is late while another is filled on the same cores.
describe("rules after load", () => {
  // The second API has 40 slots.
  test.each([
    ["some", 34, "overload-keeps-the-caps", 60_000],
    // What never ends need not be waited for as long as a user would.
    ["all", 45, "slots-come-back", 6_000],
  ])("%s slots that calls before it have kept are missed", async (_, calls, rule, patienceMs) => {
    const document = await afterCalls(calls, { defects: ["keeps-a-slot-for-nobody"] }, patienceMs);
    const claim = claimOf(document, rule);
    expect(claim, JSON.stringify(document.stages.map(({ by_outcome }) => by_outcome))).toMatchObject({
      verdict: "fail",
      stage: "after-load",
      level: "must",
      replay: "npx floodgate run nightly",
    });
    expect(document.exit_code).toBe(1);
    expect(document.stages[0]?.protocols).toEqual(["h1"]);
  });

  test("a deployment that gave every slot back passes", async () => {
    // Streams of more than a second: shorter ones are over before a busy machine has opened more than there are slots.
    const document = await afterCalls(40, { streamMs: 200 });
    for (const rule of ["overload-keeps-the-caps", "slots-come-back"]) {
      const claim = claimOf(document, rule);
      expect(claim, JSON.stringify(claim)).toMatchObject({ verdict: "pass" });
    }
    expect(document.exit_code).toBe(0);
  });
});

test("the command that tries a rule again names the target file and the hosts of the run, and nothing that verify has not", () => {
  const owned = "--target staging.json --i-own a.example --i-own b.example";
  expect(verifyCommandOf(`npx floodgate run smoke --short ${owned} --seed 7`)).toBe(`npx floodgate verify ${owned}`);
  expect(verifyCommandOf("npx floodgate run smoke --seed 7")).toBe("npx floodgate verify");
});

type Credentials = NonNullable<SecondApi["target"]["credentials"]>;

test.each<[string, (roles: Credentials) => Credentials["server"]]>([
  ["does not know", () => ({ key: "svc_sk_live_nobodyknows" })],
  ["refuses for one scope", ({ server_no_design }) => server_no_design],
])("no load is played with a key that the deployment %s, and each stage says so", async (_, serverOf) => {
  const folder = await mkdtemp(join(tmpdir(), "floodgate-refused-"));
  const api = await startSecondApi();
  try {
    const target = { ...api.target, credentials: { server: serverOf(api.target.credentials ?? {}) } };
    const { claims, stages, exit_code } = await playQuietly({
      ...{ profile: "smoke", folder, target, replay: "npx floodgate run smoke" },
      stages: (given) => (SUITES.get("smoke")?.stages(given) ?? []).slice(0, 3),
    });
    expect(exit_code).toBe(4);
    const failed = claims.filter(({ level, verdict }) => level === "must" && verdict === "fail").map(({ id }) => id);
    expect(failed).toEqual([]);
    expect(stages.map(({ calls }) => calls.sent > 0)).toEqual([true, false, false]);
    expect(claims.find(({ id }) => id === "reached/smoke")).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/^not played: the deployment refuses calls with every key .*\(server\)$/),
    });
  } finally {
    await api.close();
    await rm(folder, { recursive: true, force: true, maxRetries: 3 });
  }
});
