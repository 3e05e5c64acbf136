/** The reference platform with every role of a target file, for the tests of `verify`; reached as any deployment is. */
import { makeSecret, mintAdminToken } from "../platform/keys/secret.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { planSeed, storeSeed } from "../platform/seed.ts";
import { startPlatform } from "../platform/start-platform.fixture.ts";
import type { Running } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";

const ADMIN_SECRET = "an admin secret for tests".padEnd(32, ".");

export type Reference = { target: Target; close(): Promise<void> };

export const startReference = async (parts: Parts = HEALTHY): Promise<Reference> => {
  const options = { adminSecret: ADMIN_SECRET, inference: { serviceMs: 60, tokens: 8 } };
  const { running, api, close } = await startPlatform(options, parts);
  const nowMs = Date.now();
  const adminToken = (org: string): string => mintAdminToken({ secret: ADMIN_SECRET, org, nowMs });
  const seed = planSeed([], { makeSecret, adminToken, nowMs });
  await storeSeed(seed, running.administration as NonNullable<Running["administration"]>);
  return {
    close,
    target: {
      schema: "floodgate/target@1",
      name: "reference",
      base_url: api,
      key_management_url: api,
      tile_url: `${api}/maps/tiles/{z}/{x}/{y}`,
      shedding: "fixed",
      limits: { global_in_flight: 64, org_in_flight: 32 },
      permits: { writes: true, quota_burn: true, load_max_rps: 200 },
      credentials: seed.target.credentials as NonNullable<Target["credentials"]>,
    },
  };
};
