/** The target file that `init` writes: what was found, references in place of secrets, comments for a first reader. */
import type { StatedStreamEnds } from "../../contract/streams.ts";
import { ORIGIN_TO_REPLACE } from "../../target/target-file.ts";

export const KEY_VARIABLES = { publishable: "FLOODGATE_PUBLISHABLE_KEY", server: "FLOODGATE_SERVER_KEY" } as const;

type ProposalParts = {
  baseUrl: string;
  seen: boolean;
  tileUrl?: string;
  keyManagement: boolean;
  origin?: string;
  ca?: string;
  streamEnds?: StatedStreamEnds;
  /** The keys that the user has; both if that is not known. */
  has: { publishable: boolean; server: boolean };
};

const credentialsOf = ({ has, origin = ORIGIN_TO_REPLACE, keyManagement }: ProposalParts): Record<string, unknown> => {
  const named = (role: string, present: boolean): string => (present ? role : `//${role}`);
  return {
    "//": "Keys by role. A value env:NAME is read from the environment, file:PATH from a file, exec:COMMAND from a command's output. Take a commented role by removing its two slashes.",
    "// publishable": "A full-scope key of a Pro organization; origin must be in its allowlist.",
    [named("publishable", has.publishable)]: { key: `env:${KEY_VARIABLES.publishable}`, origin },
    "// server": "A full-scope server key of the same organization that this machine's address may use.",
    [named("server", has.server)]: { key: `env:${KEY_VARIABLES.server}` },
    "// more": "The more roles there are, the more rules can be judged. doctor lists which role is missing for what.",
    "//publishable_other_org": { key: "env:FLOODGATE_OTHER_ORG_KEY", origin, org: "another organization" },
    "//revoked": { key: "env:FLOODGATE_REVOKED_KEY", origin },
    ...(keyManagement ? { "//admin_pro": { token: "env:FLOODGATE_ADMIN_TOKEN" } } : {}),
  };
};

export const proposeTarget = (parts: ProposalParts): Record<string, unknown> => {
  const { baseUrl, seen, tileUrl, ca, streamEnds } = parts;
  const url = new URL(baseUrl);
  return {
    "//": "A target file of Floodgate: what it may know of a deployment and do to it. A member whose name begins with two slashes is a comment.",
    schema: "floodgate/target@1",
    name: url.hostname,
    "// base_url": seen
      ? "Found by asking: the API answers here."
      : "Not tried. It ends with the version segment, such as /v1.",
    base_url: baseUrl,
    ...(tileUrl === undefined ? {} : { tile_url: tileUrl }),
    ...(ca === undefined ? {} : { "// transport": "Who signed its certificate.", transport: { ca } }),
    credentials: credentialsOf(parts),
    "// tenants":
      "Load is carried by many organizations: the key of one meets its own caps first. doctor says how many a scenario needs.",
    "//tenants": [{ org: "org_t01", tier: "Pro", limit: 100_000, server: { key: "env:FLOODGATE_T01_SERVER_KEY" } }],
    "// stream_end":
      "The event that ends a whole stream of each kind: where it is stated, a stream that ends without it was cut. doctor finds it out and writes it here.",
    ...(streamEnds === undefined ? {} : { stream_end: streamEnds }),
    "// shedding": "fixed when the deployment sheds at caps that you state in limits; adaptive; else unknown.",
    shedding: "unknown",
    "// exclusive":
      "Take away the slashes where nobody else calls it during a run: then sheds are judged call by call, and doctor --find-limits writes what it finds.",
    "//exclusive": true,
    "//limits": { slots: 64, service_ms: 200, global_in_flight: 64, org_in_flight: 32, rate_per_s: 50, burst: 100 },
    "// permits":
      "What a run may do: make and remove keys, use up allowances, inject faults, calls per second at the most. To find or pass a cap, load_max_rps has to fill it: calls in flight are calls per second times their length in seconds.",
    permits: { writes: false, quota_burn: false, chaos: false, load_max_rps: 50 },
    "// budget":
      "How much one run may use up. verify makes up to 1200 calls, run nightly at 50 calls per second about 58000; --dry-run says it.",
    budget: { requests: 60_000, map_loads: 50, analyses: 10, stream_seconds: 20_000 },
  };
};
