/**
 * The schema of a target file (interface.md section 2). Each field's `description` is the sentence that a user reads when
 * the value does not fit: "expected …".
 */
import Type, { type TSchema } from "typebox";
import { STREAMS } from "../contract/streams.ts";
import { ADMIN_ROLES, KEY_ROLES } from "./target.ts";

const text = (expected = "a text") => Type.String({ description: expected, minLength: 1 });
const reference = (of: string) => text(`${of}, or where it is: "env:NAME", "file:PATH" or "exec:COMMAND"`);
const originUrl = (of: string) =>
  Type.String({ description: `${of}: a URL that begins with http:// or https://`, pattern: "^https?://[^\\s]+$" });
/** What it must look like beyond this is said by `target-urls.ts`, once references are read. */
const address = (of: string) => reference(`${of}: a URL that begins with http:// or https://`);
const whole = (of: string, minimum = 0) =>
  Type.Integer({ minimum, description: `${of}: a whole number of at least ${minimum}` });
const figure = (of: string) => Type.Number({ minimum: 0, description: `${of}: a number of at least 0` });
const share = (of: string) => Type.Number({ minimum: 0, maximum: 1, description: `${of}: a share between 0 and 1` });
const flag = (of: string) => Type.Boolean({ description: `${of}: true or false` });
const oneOf = (...values: string[]) =>
  Type.Enum(values, { description: `one of ${values.map((value) => JSON.stringify(value)).join(", ")}` });
const orNull = (schema: TSchema) =>
  Type.Union([schema, Type.Null()], { description: `${(schema as { description?: string }).description}, or null` });

type Fields = Record<string, TSchema>;
const optional = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]));
const object = (of: string, required: Fields, others: Fields = {}) =>
  Type.Object({ ...required, ...optional(others) }, { description: `an object: ${of}` });
const map = (of: string, values: TSchema) => Type.Record(Type.String(), values, { description: `an object: ${of}` });
const list = (of: string, items: TSchema) => Type.Array(items, { description: `a list: ${of}` });

const tier = oneOf("Free", "Pro");
const origin = originUrl("an origin in the key's allowlist");
const key = reference("a key");

const keyCredential = object(
  "a key and what is known of it",
  { key },
  { origin, org: text(), limit: whole("its allowance of map loads"), tier, basemap_style_id: text() },
);
const adminCredential = object("an administrator's token", { token: reference("a token") }, { org: text() });

const limitNames = ["replicas", "slots", "service_ms", "global_in_flight", "org_in_flight", "rate_per_s", "burst"];
const shareNames = ["unanswered_share", "streams_cut_share"];
const budgetNames = ["limiter_budget_ms", "key_service_budget_ms", "revocation_budget_ms"];

export const TARGET_SCHEMA = object(
  "a target file",
  {
    schema: Type.Literal("floodgate/target@1", { description: 'the text "floodgate/target@1"' }),
    base_url: address("where the API is, with its version segment"),
  },
  {
    name: text(),
    key_management_url: address("where key management is"),
    tile_url: address("a tile, with {z}, {x} and {y} in its place"),
    transport: object(
      "how to connect",
      {},
      {
        ca: orNull(reference("a certificate of the authority in PEM")),
        cert: orNull(reference("a client certificate in PEM")),
        key: orNull(reference("the client certificate's key in PEM")),
        proxy: orNull(address("an HTTP proxy")),
        headers: map("header names and values", text("a header's value, or a reference to it")),
        protocol: oneOf("h1", "h2"),
        connections: whole("how many connections at most", 1),
      },
    ),
    control: object(
      "the control planes",
      {},
      {
        keys: orNull(address("the key service's control plane")),
        limiter: orNull(address("the limiter's control plane")),
        api: list("the control plane of each replica", address("a control plane")),
      },
    ),
    toxiproxy: object(
      "the fault proxy",
      { api_url: address("toxiproxy's API") },
      {
        proxies: object("its proxies by name", {}, { limiter: text(), keys: text(), edge: text() }),
      },
    ),
    faults: map(
      "commands by the name of a fault",
      object(
        "commands",
        { inject: list("commands", text()), heal: list("commands", text()) },
        { status: text("a command") },
      ),
    ),
    watchdog: object(
      "the watchdog beside the proxy",
      { url: address("where `chaos --watchdog` listens") },
      { token: reference("its token") },
    ),
    observers: object(
      "what else can be read",
      {},
      {
        prometheus: object("a Prometheus", { url: address("its API"), queries: map("queries by name", text()) }),
        ledger: text("a command"),
      },
    ),
    shedding: oneOf("fixed", "adaptive", "unknown"),
    exclusive: flag("whether nobody else calls the deployment during a run"),
    limits: object(
      "the deployment's limits",
      {},
      {
        ...Object.fromEntries([...limitNames, ...budgetNames].map((name) => [name, figure("a limit")])),
        ...Object.fromEntries(shareNames.map((name) => [name, share("what is tolerated")])),
      },
    ),
    stream_end: object(
      "the event that ends a whole stream of each kind",
      {},
      Object.fromEntries(STREAMS.map((kind) => [kind, orNull(text("the name of the last event"))])),
    ),
    slo: map("objectives by name", text('an objective such as "p99<=100ms"')),
    permits: object(
      "what is allowed",
      {},
      {
        writes: flag("whether keys may be made"),
        quota_burn: flag("whether allowances may be used up"),
        chaos: flag("whether faults may be injected"),
        load_max_rps: figure("the highest rate, in calls per second"),
      },
    ),
    budget: object(
      "how much a run may spend",
      {},
      {
        requests: figure("calls"),
        map_loads: figure("map loads"),
        analyses: figure("analyses"),
        stream_seconds: figure("seconds of streams"),
      },
    ),
    stop_when: object(
      "what ends a run early",
      {},
      {
        error_rate: share("errors among the newest calls"),
      },
    ),
    required: list("claims or groups that may not be skipped", text()),
    fixtures: object(
      "commands that prepare the deployment",
      {},
      {
        provision: orNull(text("a command")),
        reset: orNull(text("a command")),
      },
    ),
    tenants: list(
      "organizations that carry load",
      object(
        "an organization",
        { org: text("its name") },
        {
          tier,
          limit: whole("its allowance of map loads"),
          weight: Type.Number({ exclusiveMinimum: 0, description: "how often it is drawn: a number above 0" }),
          publishable: object("a publishable key", { key }, { origin }),
          server: object("a server key", { key }),
        },
      ),
    ),
    credentials: object(
      "keys and tokens by role",
      {},
      {
        ...Object.fromEntries(KEY_ROLES.map((role) => [role, keyCredential])),
        ...Object.fromEntries(ADMIN_ROLES.map((role) => [role, adminCredential])),
      },
    ),
  },
);
