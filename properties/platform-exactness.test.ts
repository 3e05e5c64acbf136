/**
 * Exact meters over two replicas in processes of their own that share keys and limiter: of a burst of concurrent mints
 * exactly what is left is admitted, and answers, the platform's counts, the ledger and the meter agree to the unit.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasRedisServer } from "../src/platform/limiter/redis-server.fixture.ts";
import { type Heard, netOf, outcomeOf, type Replicas, startReplicas } from "../src/platform/replicas.fixture.ts";

const MINTS = 300;

/** Organizations in which the burst finds less than it asks for, and one in which it does not. */
const ORGANIZATIONS = [
  { name: "free", tier: "Free", map_load_allowance: 120, map_loads_used: 20, left: 100 },
  { name: "paid", tier: "Pro", map_load_allowance: 40, map_loads_used: 60, left: 140 },
  { name: "exhausted", tier: "Free", map_load_allowance: 5, map_loads_used: 5, left: 0 },
  { name: "ample", tier: "Pro", map_load_allowance: 100_000, map_loads_used: 0, left: 499_999 },
] as const;

const tally = (heard: readonly Heard[]): Record<string, number> => {
  const by: Record<string, number> = {};
  for (const one of heard) by[outcomeOf(one)] = (by[outcomeOf(one)] ?? 0) + 1;
  return by;
};

/** Without organizations: outcome -> calls. */
const totals = (counts: Record<string, Record<string, number>>): Record<string, number> =>
  Object.fromEntries(
    Object.entries(counts).map(([outcome, byOrg]) => [outcome, Object.values(byOrg).reduce((sum, n) => sum + n, 0)]),
  );

describe.each([
  { limiter: "sqlite" as const, runs: true },
  { limiter: "redis" as const, runs: hasRedisServer },
])("two replicas over $limiter", ({ limiter, runs }) => {
  let on: Replicas;
  beforeAll(async () => {
    if (runs)
      on = await startReplicas({
        replicas: 2,
        limiter,
        api: ["--global-in-flight", "5000", "--org-in-flight", "5000"],
      });
  });
  afterAll(() => on?.close());

  test.skipIf(!runs).each(ORGANIZATIONS)(
    `${MINTS} concurrent mints of the $name organization are exact to the unit`,
    async ({ name, left, ...fields }) => {
      const org = await on.org(fields);
      const key = await on.key(org);
      const heard = await Promise.all(
        Array.from({ length: MINTS }, (_, i) =>
          on.call(i % 2, "/sdk/sessions", key, { id: `exact-${name}.${i}`, body: { product: "tile" } }),
        ),
      );
      await on.settled();
      const answers = tally(heard);
      const admitted = answers["200"] ?? 0;
      // A busy machine may let the limiter's answer come late: refused then, and refunded.
      if (answers["429 limiter_unavailable"] === undefined) expect(admitted).toBe(Math.min(MINTS, left));
      expect(admitted).toBeLessThanOrEqual(Math.min(MINTS, left));
      expect(answers.none).toBeUndefined();
      expect(totals(await on.counts(`exact-${name}`))).toEqual(answers);
      const lines = await on.ledger(`exact-${name}.`);
      expect(netOf(lines)).toBe(admitted);
      expect(lines.every((line) => line.org === org)).toBe(true);
      expect((await on.used(org)) - fields.map_loads_used).toBe(admitted);
      const tokens = heard.flatMap((one) => (one?.status === 200 ? [one.json.session_token] : []));
      expect(new Set(tokens).size).toBe(admitted);
    },
  );
});
