/**
 * Draws commands: each does the same to the model and to the real server and compares them (call-commands.ts,
 * key-commands.ts, operator-commands.ts).
 */
import fc from "fast-check";
import { PRODUCTS, type Product, type RouteName, SCOPES, type Scope } from "../../src/contract/routes.ts";
import type { Tier } from "../../src/core/call.ts";
import type { KeyCreation, KeyUpdate } from "../../src/core/management.ts";
import type { Fault, Link } from "../rigs/real-api.ts";
import { type From, mint, stampede, USED_ROUTES, use } from "./call-commands.ts";
import { type Command, FOREIGN, MINUTE_MS, ORIGIN } from "./command-frame.ts";
import { create, revoke, update } from "./key-commands.ts";
import type { BodyKind } from "./model.ts";
import {
  expire,
  fault,
  healing,
  newMonth,
  readMeters,
  setDeployment,
  setTier,
  tenMinutesOn,
} from "./operator-commands.ts";

const whichArb = fc.noBias(fc.nat({ max: 6 }));
const scopesArb: fc.Arbitrary<Scope[]> = fc.oneof(
  fc.constant<Scope[]>(["ai", "design", "maps"]),
  fc.subarray([...SCOPES]),
);
const productsArb: fc.Arbitrary<Product[]> = fc.oneof(fc.constant<Product[]>([]), fc.subarray([...PRODUCTS]));
const fieldsArb = {
  scopes: scopesArb,
  products: productsArb,
  allowed_origins: fc.constantFrom<string[]>([ORIGIN], [ORIGIN], [FOREIGN], []),
  acknowledge_vendor: fc.boolean(),
};
const creationArb: fc.Arbitrary<KeyCreation> = fc.record({
  kind: fc.constantFrom("publishable" as const, "publishable" as const, "server" as const),
  env: fc.constantFrom("live" as const, "test" as const),
  ...fieldsArb,
});
const updateArb: fc.Arbitrary<KeyUpdate> = fc.record(fieldsArb, { requiredKeys: [] });
const fromArb = fc.oneof(
  { weight: 5, arbitrary: fc.constant<From>("app") },
  fc.constantFrom<From>("foreign", "lookalike", "nowhere", "null"),
);
const rarely = fc.nat({ max: 5 }).map((n) => n === 5);
const SESSIONS = ["enabled", "enabled", "enabled", "disabled", "not_configured"] as const;
const FULL = [null, null, null, "replica", "organizations"] as const;

/** Weighted so that most calls pass several checks: keys, plans and links are broken seldom and repaired soon. */
export const commandArb: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc
      .tuple(whichArb, fc.constantFrom("tile" as const, ...PRODUCTS), fromArb, rarely)
      .map((a) => mint(...a)),
  },
  {
    weight: 12,
    arbitrary: fc
      .tuple(
        fc.constantFrom<"token" | "key" | "nothing">("token", "token", "token", "token", "key", "key", "nothing"),
        whichArb,
        fc.constantFrom<RouteName>(...USED_ROUTES),
        fromArb,
        fc.constantFrom<BodyKind>("fine", "fine", "failing", "malformed"),
      )
      .map((args) => use(...args)),
  },
  { weight: 3, arbitrary: fc.tuple(whichArb, fc.integer({ min: 2, max: 12 })).map((args) => stampede(...args)) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(whichArb, creationArb, fc.constantFrom(null, null, 5 * MINUTE_MS))
      .map((args) => create(...args)),
  },
  { weight: 4, arbitrary: fc.tuple(whichArb, updateArb, rarely).map((args) => update(...args)) },
  { weight: 1, arbitrary: whichArb.map(revoke) },
  { weight: 1, arbitrary: fc.tuple(whichArb, fc.boolean()).map((args) => expire(...args)) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(whichArb, fc.constantFrom<Tier | null>("Free", "Free", "Pro", "Pro", "Pro", null))
      .map((args) => setTier(...args)),
  },
  { weight: 1, arbitrary: fc.constant(null).map(newMonth) },
  { weight: 1, arbitrary: fc.constant(null).map(tenMinutesOn) },
  {
    weight: 2,
    arbitrary: fc
      .tuple(
        fc.constantFrom<Link>("keys", "limiter", "limiter"),
        fc.oneof(
          {
            weight: 4,
            arbitrary: fc.constantFrom<Fault>(
              "refused",
              "reset",
              "truncated-reply",
              "accepted-then-closed",
              "nonsense",
            ),
          },
          // Each of these two costs a whole budget per call.
          fc.constantFrom<Fault>("request-lost", "reply-lost"),
        ),
      )
      .map((args) => fault(...args)),
  },
  { weight: 6, arbitrary: fc.constant(null).map(healing) },
  {
    weight: 2,
    arbitrary: fc
      .oneof(fc.record({ sessions: fc.constantFrom(...SESSIONS) }), fc.record({ full: fc.constantFrom(...FULL) }))
      .map(setDeployment),
  },
  { weight: 2, arbitrary: fc.constant(null).map(readMeters) },
);
