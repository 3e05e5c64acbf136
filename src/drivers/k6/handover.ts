/** Gathers what a scenario needs of a target: credentials, sessions minted beforehand, certificates, a proxy. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { openApiClient } from "../../client/api-client.ts";
import type { RunClock } from "../../client/clock.ts";
import type { ObservedLine } from "../../client/observed-line.ts";
import type { Timeouts } from "../../client/send-request.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { AdminCredential, KeyCredential, Target } from "../../target/target.ts";
import type { HandOver } from "../../workload/handover.ts";
import { credentialName, type Places } from "../../workload/request.ts";
import type { CredentialRef } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import type { CallerName, TargetView } from "../../workload/target-view.ts";

export type Gathering = {
  story: Story;
  stage: string;
  idPrefix: string;
  seed: number;
  target: Target;
  view: TargetView;
  secrets: Secrets;
  clock: RunClock;
  timeouts: Timeouts;
  /** Of the calls that mint sessions. */
  onLine(line: ObservedLine): void;
  /** A folder that only its owner may read. */
  folder: string;
};

type Gathered = Pick<HandOver, "credentials" | "origins">;

const keysOf = (target: Target): { ref: CredentialRef; origin?: string | undefined }[] => {
  const keys: { ref: CredentialRef; origin?: string | undefined }[] = [];
  for (const { org, publishable, server } of target.tenants ?? []) {
    const of: CallerName = `tenant:${org}`;
    if (publishable !== undefined) keys.push({ ref: { as: "publishable", of }, origin: publishable.origin });
    if (server !== undefined) keys.push({ ref: { as: "server", of } });
  }
  const roles = Object.entries(target.credentials ?? {}) as [string, KeyCredential | AdminCredential][];
  for (const [role, credential] of roles) {
    const of: CallerName = `role:${role}`;
    if ("token" in credential) keys.push({ ref: { as: "admin", of } });
    else
      keys.push({ ref: { as: role.startsWith("server") ? "server" : "publishable", of }, origin: credential.origin });
  }
  return keys;
};

/** Calls looked at to see which roles a story uses; its rounds are shorter by far. */
const LOOKED_AT = 2000;

/** Who calls in a story: roles by name, and whether tenants do. */
const callersOf = ({ story, seed, view }: Gathering): { roles: Set<string>; tenants: boolean } => {
  const callers = { roles: new Set<string>(), tenants: false };
  for (let i = 0; i < LOOKED_AT; i++) {
    for (const { credential } of story.plan(seed, i, view)) {
      if (!("of" in credential)) continue;
      if (credential.of.startsWith("tenant:")) callers.tenants = true;
      else callers.roles.add(credential.of);
    }
  }
  return callers;
};

/** Only what the story may use is read: a scenario of tenants needs no role's secret. */
const gather = async (gathering: Gathering): Promise<Gathered> => {
  const { target, secrets, view, clock, stage, idPrefix, timeouts, onLine, story } = gathering;
  const client = await openApiClient({ target, secrets, view, clock, stage, driver: "k6", idPrefix, timeouts, onLine });
  try {
    const gathered: Gathered = { credentials: {}, origins: {} };
    const { roles, tenants } = callersOf(gathering);
    for (const { ref, origin } of keysOf(target)) {
      if (!("of" in ref) || !(ref.of.startsWith("tenant:") ? tenants : roles.has(ref.of))) continue;
      const value = await client.book.fetch(ref);
      if (value !== null) gathered.credentials[credentialName(ref)] = value;
      if (origin !== undefined) gathered.origins[ref.of] = origin;
    }
    for (const wanted of story.sessions(view)) {
      const ref: CredentialRef = { as: "session", ...wanted };
      const value = await client.book.fetch(ref);
      if (value !== null) gathered.credentials[credentialName(ref)] = value;
    }
    return gathered;
  } finally {
    await client.close();
  }
};

export type HandedOver = {
  handOver: Omit<HandOver, "firstCall" | "summaryPath">;
  /** For k6's process, beside the path of the file. */
  environment: Record<string, string>;
};

export const collectHandOver = async (gathering: Gathering): Promise<HandedOver> => {
  const { target, secrets, folder, stage, idPrefix, seed, view, timeouts } = gathering;
  const transport = target.transport ?? {};
  const read = (ref: string | null | undefined, what: string): Promise<string> | undefined =>
    ref === undefined || ref === null ? undefined : secrets.read(ref, `transport.${what}`);
  const environment: Record<string, string> = {};
  const ca = await read(transport.ca, "ca");
  if (ca !== undefined) {
    // Go takes authorities from a file, and k6 has no option of its own.
    environment.SSL_CERT_FILE = join(folder, "ca.pem");
    await writeFile(environment.SSL_CERT_FILE, ca, { mode: 0o600 });
  }
  const proxy = await read(transport.proxy, "proxy");
  if (proxy !== undefined) Object.assign(environment, { HTTP_PROXY: proxy, HTTPS_PROXY: proxy });
  const cert = await read(transport.cert, "cert");
  const key = await read(transport.key, "key");
  const headers: Record<string, string> = {};
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    headers[name.toLowerCase()] = await secrets.read(ref, `transport.headers.${name}`);
  }
  const { base_url, key_management_url, tile_url } = target;
  const places: Places = {
    base_url,
    ...(key_management_url === undefined ? {} : { key_management_url }),
    ...(tile_url === undefined ? {} : { tile_url }),
  };
  return {
    handOver: {
      stage,
      idPrefix,
      seed,
      view,
      places,
      headers,
      timeouts,
      ...(await gather(gathering)),
      options: {
        // Metrics are read from our own lines; fewer tags, fewer time series.
        systemTags: ["scenario"],
        summaryTrendStats: ["count", "med", "p(99)", "max"],
        ...(cert === undefined || key === undefined ? {} : { tlsAuth: [{ cert, key }] }),
      },
    },
    environment,
  };
};
