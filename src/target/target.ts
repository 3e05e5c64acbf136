/** The schema of a target file. A field's `description` completes the message "expected …". */
import Type, { type Static, type TProperties, type TSchema } from "typebox";
import { STREAMS } from "../contract/streams.ts";
import { ADMIN_ROLES, KEY_ROLES } from "./roles.ts";

const text = (expected = "a text") => Type.String({ description: expected, minLength: 1 });
const reference = (of: string) => text(`${of}, or where it is: "env:NAME", "file:PATH" or "exec:COMMAND"`);
/** `target-file.ts` checks the rest after reading references. */
const address = (of: string) => reference(`${of}: a URL that begins with http:// or https://`);
const whole = (of: string, minimum = 0) =>
  Type.Integer({ minimum, description: `${of}: a whole number of at least ${minimum}` });
const figure = (of: string) => Type.Number({ minimum: 0, description: `${of}: a number of at least 0` });
const share = (of: string) => Type.Number({ minimum: 0, maximum: 1, description: `${of}: a share between 0 and 1` });
const flag = (of: string) => Type.Boolean({ description: `${of}: true or false` });
const oneOf = <const Values extends string[]>(...values: Values) =>
  Type.Unsafe<Values[number]>(
    Type.Enum(values, { description: `one of ${values.map((value) => JSON.stringify(value)).join(", ")}` }),
  );

const NONE = {};
const object = <May extends TProperties, Must extends TProperties = typeof NONE>(of: string, may: May, must?: Must) =>
  Type.Object(
    { ...(must as Must), ...Type.Partial(Type.Object(may)).properties },
    { description: `an object: ${of}`, additionalProperties: false },
  );
const map = <Values extends TSchema>(of: string, values: Values) =>
  Type.Record(Type.String(), values, { description: `an object: ${of}` });
const list = <Items extends TSchema>(of: string, items: Items) => Type.Array(items, { description: `a list: ${of}` });
const each = <const Names extends readonly string[], Schema extends TSchema>(names: Names, schema: Schema) =>
  Object.fromEntries(names.map((name) => [name, schema])) as Record<Names[number], Schema>;

const tier = oneOf("Free", "Pro");
const origin = Type.String({
  description: "an origin in the key's allowlist: a URL that begins with http:// or https://",
  pattern: "^https?://[^\\s]+$",
});
const key = reference("a key");

const keyCredential = object(
  "a key and what is known of it",
  { origin, org: text(), limit: whole("its allowance of map loads"), tier, basemap_style_id: text() },
  { key },
);
const adminCredential = object("an administrator's token", { org: text() }, { token: reference("a token") });

const transport = object("how to connect", {
  ca: reference("a certificate of the authority in PEM"),
  cert: reference("a client certificate in PEM"),
  key: reference("the client certificate's key in PEM"),
  proxy: address("an HTTP proxy"),
  headers: map("header names and values", text("a header's value, or a reference to it")),
  protocol: oneOf("h1", "h2"),
  connections: whole("how many connections at most", 1),
});

const commands = list("commands", text());
const limitNames = [
  ...(["replicas", "slots", "service_ms", "global_in_flight", "org_in_flight", "rate_per_s", "burst"] as const),
  ...(["limiter_budget_ms", "key_service_budget_ms", "revocation_budget_ms"] as const),
];

const tenant = object(
  "an organization",
  {
    tier,
    limit: whole("its allowance of map loads"),
    weight: Type.Number({ exclusiveMinimum: 0, description: "how often it is drawn: a number above 0" }),
    publishable: object("a publishable key", { origin }, { key }),
    server: object("a server key", NONE, { key }),
  },
  { org: text("its name") },
);

export const TARGET_SCHEMA = object(
  "a target file",
  {
    name: text(),
    key_management_url: address("where key management is"),
    tile_url: address("a tile, with {z}, {x} and {y} in its place"),
    transport,
    control: object("the control planes", {
      keys: address("the key service's control plane"),
      limiter: address("the limiter's control plane"),
      api: list("the control plane of each replica", address("a control plane")),
    }),
    toxiproxy: object(
      "the fault proxy",
      { proxies: object("its proxies by name", each(["limiter", "keys", "edge"], text())) },
      { api_url: address("toxiproxy's API") },
    ),
    /** `status` exits with 0 while the fault is in force, with 1 while it is not. */
    faults: map(
      "commands by the name of a fault",
      object("commands", { status: text("a command") }, { inject: commands, heal: commands }),
    ),
    /** `chaos --watchdog` beside the proxy or the commands' hosts. */
    watchdog: object(
      "the watchdog beside the proxy",
      { token: reference("its token") },
      { url: address("where `chaos --watchdog` listens") },
    ),
    /** `ready` exits with 0 once that many replicas serve. */
    scale: object("commands that set the number of replicas", NONE, {
      set: Type.Array(text(), { minItems: 1, description: "a list: commands with {replicas} in the number's place" }),
      ready: Type.String({ pattern: "\\{replicas\\}", description: "a command with {replicas} in the number's place" }),
    }),
    observers: object("what else can be read", {
      prometheus: object("a Prometheus", NONE, { url: address("its API"), queries: map("queries by name", text()) }),
      ledger: text("a command"),
    }),
    shedding: oneOf("fixed", "adaptive", "unknown"),
    exclusive: flag("whether nobody else calls the deployment during a run"),
    limits: object("the deployment's limits", {
      ...each(limitNames, figure("a limit")),
      ...each(["unanswered_share", "streams_cut_share", "false_sheds_allowed"], share("what is tolerated")),
    }),
    /** If an event is stated, a stream that ends without it counts as cut. */
    stream_end: object(
      "the event that ends a whole stream of each kind",
      each(STREAMS, text("the name of the last event")),
    ),
    slo: map("objectives by name", text('an objective such as "p99<=100ms"')),
    permits: object("what is allowed", {
      writes: flag("whether keys may be made"),
      quota_burn: flag("whether allowances may be used up"),
      chaos: flag("whether faults may be injected"),
      load_max_rps: figure("the highest rate, in calls per second"),
    }),
    budget: object("how much a run may spend", {
      requests: figure("calls"),
      map_loads: figure("map loads"),
      analyses: figure("analyses"),
      stream_seconds: figure("seconds of streams"),
    }),
    stop_when: object("what ends a run early", { error_rate: share("errors among the newest calls") }),
    required: list("claims or groups that may not be skipped", text()),
    fixtures: object("commands that prepare the deployment", each(["provision", "reset"], text("a command"))),
    tenants: list("organizations that carry load", tenant),
    credentials: object("keys and tokens by role", {
      ...each(KEY_ROLES, keyCredential),
      ...each(ADMIN_ROLES, adminCredential),
    }),
  },
  {
    schema: Type.Literal("floodgate/target@1", { description: 'the text "floodgate/target@1"' }),
    base_url: address("where the API is, with its version segment"),
  },
);

/** Writes the number into commands of `scale`. It consists of digits, so no shell reads anything else into it. */
export const forReplicas = (commands: readonly string[], replicas: number): string[] =>
  commands.map((command) => command.replaceAll("{replicas}", `${replicas}`));

export type Transport = Static<typeof transport>;
export type Target = Static<typeof TARGET_SCHEMA>;
