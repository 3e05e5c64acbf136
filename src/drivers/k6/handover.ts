/** Gathers what a scenario needs of a target: credentials, sessions minted beforehand, certificates, a proxy. */
import { join } from "node:path";
import { openApiClient } from "../../client/api-client.ts";
import type { RunClock } from "../../client/clock.ts";
import type { CallLine } from "../../history/line.ts";
import { writePrivateFile } from "../../supervision/private-file.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import type { BudgetGuard } from "../../workload/budget.ts";
import { keysFor, originsOf } from "../../workload/callers/story-keys.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import type { HandOver } from "../../workload/handover.ts";
import { credentialName, type Places } from "../../workload/request.ts";
import type { CredentialRef } from "../../workload/step.ts";
import type { Story } from "../../workload/story.ts";
import type { Timeouts } from "../../workload/timeouts.ts";

type Gathering = {
  story: Story;
  stage: string;
  idPrefix: string;
  seed: number;
  target: Target;
  view: TargetView;
  secrets: Secrets;
  clock: RunClock;
  timeouts: Timeouts;
  /** What minting sessions spends of. */
  budget: BudgetGuard;
  /** Of the calls that mint sessions. */
  onLine(line: CallLine): void;
  /** A folder that only its owner may read. */
  folder: string;
};

type Gathered = Pick<HandOver, "credentials" | "origins"> & Required<Pick<HandOver, "sessions">>;

const gather = async (gathering: Gathering): Promise<Gathered> => {
  const { target, secrets, view, clock, stage, idPrefix, timeouts, onLine, story, seed, budget } = gathering;
  const minting = { driver: "k6", idPrefix, timeouts, onLine, budget };
  const client = await openApiClient({ target, secrets, view, clock, stage, ...minting });
  try {
    const keys = keysFor(story, seed, view, target);
    const gathered: Gathered = { credentials: {}, origins: originsOf(keys), sessions: {} };
    for (const { ref } of keys) {
      const value = await client.book.fetch(ref);
      if (value !== null) gathered.credentials[credentialName(ref)] = value;
    }
    for (const wanted of story.sessions(view)) {
      const ref: CredentialRef = { as: "session", ...wanted };
      await client.book.fetch(ref);
      const held = client.book.sessionOf(ref);
      if (held !== undefined) gathered.sessions[credentialName(ref)] = held;
    }
    return gathered;
  } finally {
    await client.close();
  }
};

export type HandedOver = {
  handOver: Omit<HandOver, "firstCall" | "schedule" | "summaryPath" | "printPath" | "budget">;
  /** For k6's process, beside the path of the file. */
  environment: Record<string, string>;
};

export const collectHandOver = async (gathering: Gathering): Promise<HandedOver> => {
  const { target, secrets, folder, stage, idPrefix, seed, view, timeouts } = gathering;
  const transport = target.transport ?? {};
  const read = (ref: string | null | undefined, what: string): Promise<string> | undefined =>
    ref === undefined || ref === null ? undefined : secrets.read(ref, `transport.${what}`);
  // Go agrees upon HTTP/2 wherever it is offered, and k6 has no option of its own.
  const environment: Record<string, string> = transport.protocol === "h2" ? {} : { GODEBUG: "http2client=0" };
  const ca = await read(transport.ca, "ca");
  if (ca !== undefined) {
    // Go takes authorities from a file, and k6 has no option of its own.
    environment.SSL_CERT_FILE = join(folder, "ca.pem");
    await writePrivateFile(environment.SSL_CERT_FILE, ca);
  }
  const proxy = await read(transport.proxy, "proxy");
  // Read by `native/sse/proxy.go`.
  if (proxy !== undefined) environment.FLOODGATE_PROXY = proxy;
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
      ...(target.stream_end === undefined ? {} : { streamEnd: target.stream_end }),
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
