/** `serve --write-target`: seeds the demo organizations and tenants and writes the target file that names them. */
import { resolve } from "node:path";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import { mintAdminToken } from "../platform/keys/admin-tokens.ts";
import { makeSecret } from "../platform/keys/secret.ts";
import { demoTenants, planSeed, storeSeed } from "../platform/seed.ts";
import type { RoleOptions, Running } from "../platform/start-role.ts";
import { UsageError } from "../run/exit-codes.ts";
import { writePrivateFile } from "../supervision/private-file.ts";
import { readUserJson, UserFileError } from "../supervision/user-file.ts";
import { checkTarget } from "../target/target-file.ts";

const ADMIN_TOKEN_S = 30 * 24 * 3_600;

type WriteTargetOptions = {
  tenants: number;
  path: string;
  adminSecret: string;
  role: RoleOptions;
  tlsCert?: string | undefined;
  targetFrom?: string | undefined;
};

/** What the file `--target-from` says: everything of a target file but who calls. */
const readFrom = (file: string): Record<string, unknown> => {
  const expected = `--target-from ${file}: expected a target file without tenants and credentials`;
  let found: unknown;
  try {
    found = readUserJson(file);
  } catch (error) {
    if (!(error instanceof UserFileError)) throw error;
    throw new UsageError(`${expected}, but ${error.message}`);
  }
  if (typeof found !== "object" || found === null || Array.isArray(found)) {
    throw new UsageError(`${expected}, but it is no JSON object`);
  }
  const own = ["tenants", "credentials"].find((field) => field in found);
  if (own !== undefined) throw new UsageError(`${expected}, but it has ${own}: take them out`);
  return found as Record<string, unknown>;
};

/** The same where this process is the whole deployment. */
const ofThisProcess = ({ urls }: Running, options: WriteTargetOptions): Record<string, unknown> => {
  const { inference, globalInFlight, orgInFlight = 32, rateLimit, shedding = "fixed" } = options.role;
  const rate = rateLimit === undefined ? { perS: 50, burst: 100 } : rateLimit;
  const { control } = urls;
  return {
    schema: "floodgate/target@1",
    name: "serve",
    base_url: urls.api,
    key_management_url: urls.api,
    tile_url: `${urls.api}/maps/tiles/{z}/{x}/{y}`,
    // A certificate of one's own making is known to nobody else.
    ...(options.tlsCert === undefined
      ? {}
      : { transport: { ca: `file:${resolve(options.tlsCert)}`, protocol: options.role.http2 === true ? "h2" : "h1" } }),
    ...(control === undefined
      ? {}
      : { control: { keys: control.keys ?? null, limiter: control.limiter ?? null, api: [control.api] } }),
    shedding,
    stream_end: REFERENCE_STREAM_ENDS,
    // Whoever starts it for a try calls it alone.
    exclusive: true,
    limits: {
      replicas: 1,
      slots: inference?.slots,
      service_ms: inference?.serviceMs,
      global_in_flight: globalInFlight,
      org_in_flight: orgInFlight,
      ...(rate === null ? {} : { rate_per_s: rate.perS, burst: rate.burst }),
      limiter_budget_ms: 250,
      key_service_budget_ms: 1_000,
      revocation_budget_ms: 1_000,
    },
    permits: { writes: true, quota_burn: true, chaos: true },
  };
};

export const seedAndWriteTarget = async (running: Running, options: WriteTargetOptions): Promise<void> => {
  const { administration, urls } = running;
  if (administration === undefined) {
    throw new UsageError(
      "--write-target needs a process that has the keys and knows the limiter: use --role all, or --role keys with --limiter",
    );
  }
  if (urls.api === undefined && options.targetFrom === undefined) {
    throw new UsageError(
      "--write-target with --role keys needs --target-from FILE: where the API is, and its limits, are not known here",
    );
  }
  const stated = options.targetFrom === undefined ? ofThisProcess(running, options) : readFrom(options.targetFrom);
  const nowMs = Date.now();
  const seed = planSeed(demoTenants(options.tenants), {
    makeSecret,
    adminToken: (org) => mintAdminToken({ secret: options.adminSecret, org, nowMs, expiresInS: ADMIN_TOKEN_S }),
    nowMs,
  });
  // What was stated is somebody's writing: a slip in it is found here, not by whoever uses the file.
  const { target } = checkTarget({ ...stated, ...seed.target }, options.targetFrom ?? options.path);
  await storeSeed(seed, administration.keys, administration.limiter);
  // It holds credentials: for its owner only.
  await writePrivateFile(options.path, `${JSON.stringify(target, null, 2)}\n`).catch((error: unknown) => {
    const why = (error as NodeJS.ErrnoException).code ?? "failed";
    throw new UsageError(`--write-target ${options.path}: expected a file that can be written (${why})`);
  });
};
