import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { mutantNamed } from "../mutants/catalogue.ts";
import { HEALTHY } from "../platform/parts.ts";
import { mergeClaims } from "../report/verdict.ts";
import { createSecrets } from "../target/secrets.ts";
import { RULES } from "./catalogue.ts";
import { type Reference, startReference } from "./reference.fixture.ts";
import { planVerify, runVerify, type VerifyOptions, type VerifyResult } from "./run-verify.ts";

let reference: Reference;
beforeAll(async () => {
  reference = await startReference();
});
afterAll(() => reference.close());

const verify = (more: Partial<VerifyOptions> = {}): Promise<VerifyResult> =>
  runVerify({
    ...{ target: reference.target, secrets: createSecrets("."), seed: 3, ratePerS: 300 },
    // No month begins within a day, whenever the tests run.
    wallMs: () => Date.UTC(2026, 5, 15),
    ...more,
  });

/** Judged by the time that things take, which is not this test's to promise. */
const BY_TIME = /refusals-are-cheap|stream-is-not-buffered|retry-after-holds/;

const claimsThat = ({ claims }: VerifyResult, verdict: string): string[] =>
  claims
    .filter((claim) => claim.verdict === verdict && !BY_TIME.test(claim.id))
    .map(({ id, reason, got }) => `${id}: ${reason}; ${got}`);

// Much of it is waiting; a burst has a deployment of its own.
describe.concurrent("the reference platform", () => {
  test("passes every rule that can be judged, with everything allowed; a second run names what the first has spent", async () => {
    const everything = { allowWrites: true, allowQuotaBurn: true, allowLoad: true };
    const plan = planVerify(reference.target, RULES, { ...everything, ratePerS: 300 });
    const calls = new Map<string, number>();
    const first = await verify({
      ...everything,
      onProgress: (progress) => {
        if (progress.at === "claim") calls.set(progress.rule.id, progress.spent.requests);
      },
    });
    expect(claimsThat(first, "fail")).toEqual([]);
    expect(claimsThat(first, "inconclusive")).toEqual([]);
    // Sessions live too long to wait for and need no Origin, nothing from outside makes an error event or a lost key service, and a short stream does not tell buffering.
    const unseen = [
      "session-ends",
      "session-origin-null",
      "stream-error-event",
      "stream-nothing-after-error",
      "key-service-down-has-no-detail",
      "session-expires-in-remains",
    ];
    const skipped = first.claims
      .filter(({ verdict }) => verdict === "skipped")
      .map(({ id }) => id.slice("verify/".length));
    expect(skipped.filter((id) => id !== "stream-is-not-buffered")).toEqual(unseen);
    // Everything else was judged, so a target file may require all of verify.
    expect(mergeClaims(first.claims, ["verify"]).verdict).toBe("pass");
    expect(first.leftOver).toEqual([]);
    // The plan told it beforehand: what would be judged, and no less than was sent and spent.
    expect(plan.rules.filter(({ lacks }) => lacks !== null)).toEqual([]);
    // Sessions are minted by whichever rule comes first.
    const SESSIONS = 6;
    const dearer = plan.rules.filter(
      ({ id, phase, calls: planned }) => phase !== "load" && (calls.get(id) ?? 0) > planned + SESSIONS,
    );
    expect(dearer).toEqual([]);
    const { requests, ...used } = first.spent;
    for (const what of ["map_loads", "analyses"] as const) {
      expect(plan.would_send[what]).toBeGreaterThanOrEqual(used[what]);
      expect(plan.would_send[what]).toBeLessThan(used[what] + 10);
    }
    expect(plan.would_send.calls).toBeGreaterThanOrEqual(requests);
    expect(plan.would_send.calls).toBeLessThan(requests * 3);

    const again = await verify({ allowQuotaBurn: true, only: ["quota-burn", "meters"] });
    expect(claimsThat(again, "fail")).toEqual([]);
    const spent = claimsThat(again, "skipped");
    expect(spent).toHaveLength(5);
    expect(spent.join()).toMatch(/allowance of publishable_expendable is spent for this month \(5 of 5\)/);
    expect(spent.join()).toMatch(/allowance of publishable_expendable_paid is spent/);
  });

  test("is caught by a burst when its global cap is reported as an outage", async () => {
    const spoilt = await startReference(mutantNamed("sheds-with-a-503").spoil(HEALTHY));
    try {
      const { claims } = await verify({ target: spoilt.target, only: ["overload-is-no-outage"], allowLoad: true });
      expect(claims.map(({ verdict, reason }) => `${verdict} ${reason}`).join()).toMatch(/^fail /);
    } finally {
      await spoilt.close();
    }
  });

  test("with a publishable and a server key alone, the calls would fit into 30 seconds at 20 a second", async () => {
    const { publishable, server } = reference.target.credentials ?? {};
    const { tile_url: _, ...rest } = reference.target;
    const target = {
      ...rest,
      credentials: { publishable: publishable as object as never, server: server as object as never },
    };
    const result = await verify({ target });
    expect(claimsThat(result, "fail")).toEqual([]);
    expect(result.spent.requests).toBeLessThan(600);
    expect(claimsThat(result, "skipped").join("\n")).toMatch(/the role publishable_no_ai is not in the target file/);
    const codes = new Set(result.claims.map(({ code }) => code));
    expect([...codes]).toEqual(expect.arrayContaining(["held", "role-missing", "not-permitted"]));
    expect(claimsThat(result, "pass").length).toBeGreaterThan(50);
  });
});
