/** Tests what `gate` prints for mistakes of a user and for dry runs, as a child process. No deployment answers in these tests. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runCommand } from "./command.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-gate-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const target = (name: string, port: number, more: object = {}): string => {
  const file = join(folder, `${name}.json`);
  const base = { schema: "floodgate/target@1", base_url: `http://127.0.0.1:${port}/v1` };
  writeFileSync(
    file,
    JSON.stringify({ ...base, credentials: { server: { key: "env:NOBODY", org: "org_a" } }, ...more }),
  );
  return file;
};
const LIMITS = { limits: { slots: 16, service_ms: 200, global_in_flight: 16, org_in_flight: 16 } };
const base = target("base", 1, LIMITS);
const head = target("head", 2);

const gate = (...args: string[]) => runCommand(["gate", ...args]);

describe("gate", { concurrent: true }, () => {
  test("shows what it would send, and sends nothing", async () => {
    const { code, out } = await gate("--base", base, "--head", head, "--dry-run");
    expect(code).toBe(0);
    expect(out).toMatch(/^Nothing was sent to http:\/\/127\.0\.0\.1:1\/v1 or http:\/\/127\.0\.0\.1:2\/v1\./);
    expect(out).toMatch(/Blocks at 56\.0 and 160\.0 calls\/s: the base's capacity is 80\.0 calls\/s/);
    expect(out).not.toContain("only broken invariants");
    const few = await gate("--base", base, "--head", head, "--dry-run", "--pairs", "2");
    expect(few.out).toContain("fewer than 12 show only broken invariants, so a pass takes 12 pairs");
    for (const line of out.trim().split("\n").slice(1)) expect(line.length).toBeLessThanOrEqual(80);
    const probed = JSON.parse((await gate("--base", head, "--head", base, "--dry-run", "--json")).out);
    expect(probed).toMatchObject({ capacity_per_s: null, load: null, pairs: 12, pairs_at_most: 30, lacks: [] });
  });

  test("says at the start what it compares and about how long that takes", async () => {
    const { code, err } = await gate("--base", base, "--head", head, "--out", join(folder, "run"));
    expect(code).toBe(3);
    const [before = "", after] = err.replace(/\s+/g, " ").split("run folder:");
    expect(before).toMatch(
      /127\.0\.0\.1:2\/v1 .*127\.0\.0\.1:1\/v1.* 12 pairs .*about \d+ min.* 30 pairs .*about \d+ min/,
    );
    expect(after).toBeDefined();
  });

  test("refuses a host that is not loopback and not owned", async () => {
    const foreign = target("foreign", 1, { base_url: "https://maps.example/v1" });
    const { code, err } = await gate("--base", base, "--head", foreign);
    expect(code).toBe(5);
    expect(err).toContain("head: base_url is on maps.example, which is not loopback");
  });

  test.each([
    [["--base", base], /needs --base FILE and --head FILE/],
    [["--base", base, "--head", base], /base and head are both/],
    [["--base", base, "--head", head, "--scenario", "no-such"], /there is no scenario "no-such"; expected one of/],
    [["--base", base, "--head", head, "--pairs", "31"], /31/],
    [["--target", base], /not --target/],
    [["--before", folder], /--before RUN… and --after RUN… belong together/],
    [["--baseline", base], /belong together/],
    [["--save-baseline", "x", "--run", folder], /needs --run DIR… and --reason TEXT/],
    [["--base", base, "--head", head, "--before", folder], /not both/],
  ])("answers the mistake %j with a sentence", async (args, sentence) => {
    const { code, err } = await gate(...args);
    expect(err).toMatch(sentence);
    expect(err).not.toMatch(/\n\s+at /);
    expect(code).toBe(2);
  });
});
