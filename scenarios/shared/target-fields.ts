/** The fields of a target file, for k6, which cannot load the schema of `src/target/target.ts`; a test compares the two. */
import { nearest } from "../../src/contract/nearest.ts";

const KEYS = [
  "publishable publishable_other_org publishable_no_ai publishable_tile_only publishable_downgraded publishable_exhausted",
  "publishable_hard_stop publishable_expendable publishable_expendable_paid publishable_basemap server server_no_design",
  "server_foreign_ip server_downgraded revoked expired",
].join(" ");
const ADMINS = "admin_pro admin_free admin_no_plan admin_key_limit";
const KEY = "key origin org limit tier basemap_style_id";

/** Each line has the path of an object, without places in lists, and the names of its members. An object without a line may have any member. */
const FIELDS: ReadonlyMap<string, readonly string[]> = new Map(
  [
    "= schema name base_url key_management_url tile_url transport control toxiproxy faults watchdog scale observers " +
      "shedding exclusive stream_end limits slo permits budget stop_when required fixtures tenants credentials",
    "transport = ca cert key proxy headers protocol connections",
    "control = keys limiter api",
    "toxiproxy = api_url proxies",
    "toxiproxy.proxies = limiter keys edge",
    "faults.* = inject heal status",
    "watchdog = url token",
    "scale = set ready",
    "observers = prometheus ledger",
    "observers.prometheus = url queries",
    "stream_end = control summary button",
    "limits = replicas slots service_ms global_in_flight org_in_flight rate_per_s burst limiter_budget_ms " +
      "key_service_budget_ms revocation_budget_ms unanswered_share streams_cut_share false_sheds_allowed",
    "permits = writes quota_burn chaos load_max_rps",
    "budget = requests map_loads analyses stream_seconds",
    "stop_when = error_rate",
    "fixtures = provision reset",
    "tenants = org tier limit weight publishable server",
    "tenants.publishable = key origin",
    "tenants.server = key",
    `credentials = ${KEYS} ${ADMINS}`,
    ...KEYS.split(" ").map((role) => `credentials.${role} = ${KEY}`),
    ...ADMINS.split(" ").map((role) => `credentials.${role} = token org`),
  ].map((line) => {
    const [path = "", names = ""] = line.split("=");
    return [path.trim(), names.trim().split(" ")] as const;
  }),
);

/** A sentence about the first field, at any depth, that a target file cannot have; `null` if it has none. */
export const unknownField = (value: unknown, path = ""): string | null => {
  if (typeof value !== "object" || value === null) return null;
  const within = Array.isArray(value) ? value.map((one): [string, unknown] => ["", one]) : Object.entries(value);
  const known = Array.isArray(value) ? undefined : FIELDS.get(path.replace(/^faults\..+/, "faults.*"));
  for (const [name, inner] of within) {
    const at = [path, name].filter((part) => part !== "").join(".");
    if (known !== undefined && !known.includes(name)) {
      const meant = nearest(name, known);
      const hint = meant === null ? "take it out, or begin its name with //" : `did you mean ${meant}?`;
      return `${at}: no such field is known; ${hint}`;
    }
    const found = unknownField(inner, at);
    if (found !== null) return found;
  }
  return null;
};
