/**
 * The access logs that can be replayed, one row each: how a line is recognised, which moment of the call it holds and,
 * if known, the duration. If a line holds the end, the start is the end minus the duration.
 */
import { isObject, parseJson } from "../../contract/refusals.ts";
import {
  CLF,
  CLF_WITHOUT_ZONE,
  dateMoment,
  epochMoment,
  ISO,
  type LogLine,
  type Moment,
  momentAtStart,
  momentOf,
  UNIT_MS,
  type Unit,
} from "./log-line.ts";

/** Which moment of the call the line holds. `logged`: the format does not say, so it is taken as the start. */
type MomentOf = "start" | "end" | "logged";

type LineTime = { readonly at: Moment; readonly of: MomentOf; readonly tookMs?: number };

export type LogFormat = {
  /** The name for `--log-format`. */
  readonly name: string;
  /** The field that is read, as the format calls it. */
  readonly field: string;
  /** Which program writes the log, and how its lines are recognised. */
  readonly of: string;
  read(line: LogLine): LineTime | null;
  /** Reports whether the line belongs to such a log and is not about a call. */
  isNoCall?(line: LogLine): boolean;
  /** Read only if the user names it, because nothing in its lines identifies it. */
  readonly byNameOnly?: true;
  /**
   * A format of many programs, recognised by named fields or a line's beginning; tried after all others. Nothing tells
   * a line about a call from another, so each counts as one.
   */
  readonly general?: "fields" | "line";
};

const TOOK_MAX_MS = 7 * 86_400_000;
/** A number with or without a unit; microseconds may be written with a Greek letter. */
const DURATION = /^(\d+(?:\.\d+)?) ?(ns|us|ms|s|[^ -~]+s)?$/;

const tookMs = (value: unknown, unit: Unit): number | undefined => {
  const [, count, own = unit] = DURATION.exec(/^(?:number|string)$/.test(typeof value) ? `${value}` : "") ?? [];
  const ms = Number(count) * (UNIT_MS[own as Unit] ?? UNIT_MS.us);
  return ms <= TOOK_MAX_MS ? ms : undefined;
};

const timed = (at: Moment | null, of: MomentOf, took?: number): LineTime | null =>
  at && { at, of, ...(took !== undefined && { tookMs: took }) };

type Named = readonly [name: string, field: string, of: string];
type How = Partial<Pick<LogFormat, "isNoCall" | "byNameOnly" | "general">>;

const row = ([name, field, of]: Named, how: How, read: LogFormat["read"]): LogFormat => {
  return { name, field, of, read, ...how };
};

/** A row whose `isNoCall` is asked first, so that `read` need not tell a call from what is written beside it. */
const ofCalls = (named: Named, how: How, read: LogFormat["read"]): LogFormat =>
  row(named, how, (line) => (how.isNoCall?.(line) === true ? null : read(line)));

/** A text format. `line` has a group `at` or `end` for the moment, and `took` if lines hold a duration. */
const text = (named: Named, of: MomentOf, line: RegExp, unit: Unit = "s", how: How = {}): LogFormat =>
  ofCalls(named, how, (one) => {
    const { at = "", end = "", took } = line.exec(one.text)?.groups ?? {};
    return at === "" ? timed(momentOf(end), "end", tookMs(took, unit)) : timed(momentOf(at), of, tookMs(took, unit));
  });

type JsonRow = {
  at(line: LogLine): Moment | null;
  of: MomentOf;
  took?: readonly [member: string, unit: Unit];
  /** Reports whether the duration can be of that unit; default: always. */
  isTook?(value: unknown): boolean;
  beside?: readonly string[];
};

const json = (named: Named, { at, of, took, isTook = () => true, beside = [] }: JsonRow, how: How = {}): LogFormat =>
  ofCalls(named, how, (line) => {
    if (line.fields === null || beside.some((member) => line.field(member) === undefined)) return null;
    const value = took && line.field(took[0]);
    return timed(at(line), of, took && isTook(value) ? tookMs(value, took[1]) : undefined);
  });

const member =
  (...names: readonly string[]) =>
  (line: LogLine): Moment | null => {
    for (const name of names) {
      const moment = momentOf(line.field(name));
      if (moment !== null) return moment;
    }
    return null;
  };

/** Reads a member that holds a number of `unit`s since 1970, perhaps in quotes. */
const epoch =
  (name: string, unit: Unit) =>
  (line: LogLine): Moment | null => {
    const value = line.field(name);
    return typeof value === "number" || typeof value === "string" ? epochMoment(Number(value), unit) : null;
  };

/** Fields that may hold the moment in logs of unknown programs, in the order of the search, in small letters. */
const GENERAL_FIELDS =
  "@timestamp timestamp time ts datetime date asctime @t _time timegenerated timemillis eventtime event_time t __realtime_timestamp".split(
    " ",
  );
export const generalMoment = (line: LogLine): Moment | null =>
  GENERAL_FIELDS.map((name) => momentOf(line.named(name))).find((moment) => moment !== null) ?? null;

const nginxMoment = member("msec", "time_iso8601", "time_local", ...GENERAL_FIELDS, "created_at", "time_msec");

/** nginx writes `$request_time` with three decimals; other programs mean milliseconds by a member of that name. */
const REQUEST_TIME = /"request_time"\s*:\s*"?\d+\.\d{3}(?!\d)/;
const isNginx = (line: LogLine): boolean =>
  ["msec", "time_iso8601", "time_local", "body_bytes_sent"].some((name) => line.field(name) !== undefined) ||
  REQUEST_TIME.test(line.text);

const CLF_ALONE = new RegExp(String.raw`^\[?${CLF}\]?$`);

const clfInAnyMember = ({ fields }: LogLine): Moment | null => {
  const dates = Object.values(fields ?? {}).filter((value) => typeof value === "string" && CLF_ALONE.test(value));
  return dates.map(momentOf).find((moment) => moment !== null) ?? null;
};

const QUOTED = `"[^"]*"`;
/**
 * What precedes the date: no quotes, or a few quoted fields such as forwarded addresses, in which no date is looked
 * for. Bounded, so that matching is linear.
 */
const BEFORE_DATE = `[^"{]*(?:${QUOTED}[^"{]*){0,4}?`;
/** The durations of request, processing and response at AWS load balancers, in seconds; -1 for none. */
const THREE_TIMES = String.raw`(-?[\d.]+) (-?[\d.]+) (-?[\d.]+)`;
const ALB_HEAD = new RegExp(
  String.raw`^(?:https?|h2|grpcs?|wss?) (?<end>${ISO}) \S+ \S+ \S+ ${THREE_TIMES} \S+ \S+ \d+ \d+ "`,
);
const ALB_CREATED = new RegExp(
  String.raw`^\S+ \S+ \S+ \S+ \S+ (?:\S+ ){7}${QUOTED} ${QUOTED} \S+ \S+ \S+ ${QUOTED} ${QUOTED} ${QUOTED} \S+ (?<at>${ISO})(?: |$)`,
);

/** Logs older than the field `request_creation_time` hold only the end and three durations before it. */
const albTime = ({ text: line }: LogLine): LineTime | null => {
  const head = ALB_HEAD.exec(line);
  if (head === null) return null;
  const took = [head[2], head[3], head[4]].reduce((sum, part) => sum + Math.max(0, Number(part)), 0) * 1000;
  const created = ALB_CREATED.exec(line)?.groups?.at;
  return created === undefined
    ? timed(momentOf(head.groups?.end), "end", took)
    : timed(momentOf(created), "start", took);
};

/** Older logs hold the end of the connection and its duration in milliseconds, but no start. */
const NLB = new RegExp(
  String.raw`^tls \d\.\d (?<end>${ISO}) \S+ \S+ \S+ \S+ (?<took>\d+) (?:.* (?<at>${ISO})(?= |$))?`,
);

const CLOUDFRONT_MEMBERS = ["x-edge-location", "x-edge-result-type", "x-edge-request-id"];

/** The W3C draft has UTC and seconds. WebLogic writes local time unless it is told otherwise, and ProxySG (SGOS) milliseconds. */
const inLocalTime = (line: LogLine): boolean => /WebLogic/i.test(line.header?.software ?? "");
const inMs = (line: LogLine): boolean => /SGOS/.test(line.header?.software ?? "");

/** W3C logs hold the end; durations are milliseconds in IIS; CloudFront also writes JSON. */
const w3c = (named: Named, writer: NonNullable<LogLine["header"]>["writer"], unit: Unit = "s"): LogFormat =>
  row(named, {}, (line) => {
    const isCloudFront = CLOUDFRONT_MEMBERS.some((name) => line.field(name) !== undefined);
    const time = (line.header?.writer ?? (isCloudFront && "cloudfront")) === writer ? line.field("time") : undefined;
    if (typeof time !== "string") return null;
    const date = line.field("date") ?? line.header?.date;
    const text = `${date}T${time.length === 5 ? `${time}:00` : time}${inLocalTime(line) ? "" : "Z"}`;
    const at = epoch("timestamp(ms)", "ms")(line) ?? dateMoment(text);
    const took = tookMs(line.field("time-taken"), inMs(line) ? "ms" : unit);
    // IIS Advanced Logging has a column of its own.
    return timed(at, "end", took ?? tookMs(line.field("TimeTakenMS"), "ms"));
  });

/** App Service writes its properties as a text that holds JSON. */
const azureProperties = (line: LogLine): Readonly<Record<string, unknown>> => {
  const held = line.field("properties");
  const properties = typeof held === "string" ? parseJson(held) : held;
  return isObject(properties) ? properties : {};
};

/** App Service and the first Application Gateways write milliseconds, all others seconds. */
const azureTime = (line: LogLine): LineTime | null => {
  const category = `${line.field("category")}`;
  if (!/^(?:(?:ApplicationGateway|Front[Dd]oor|AzureC[Dd][Nn])AccessLog|AppServiceHTTPLogs)$/.test(category))
    return null;
  const { timeTaken, timetaken, TimeTaken, instanceId } = azureProperties(line);
  const isMs = category === "AppServiceHTTPLogs" || `${instanceId}`.startsWith("ApplicationGatewayRole");
  const took = tookMs(timeTaken ?? timetaken ?? TimeTaken, isMs ? "ms" : "s");
  return timed(member("timeStamp", "time")(line), "end", took);
};

/** Where an edge of the CDN asks an origin shield, the CDN logs the same call a second time. */
const OF_A_SHIELD: How = {
  isNoCall: (line) => `${azureProperties(line).isReceivedFromClient}`.toLowerCase() === "false",
};

/** A connection that ended, or was refused, before it held a request: no call is made of it. The status follows. */
const HAS_NO_REQUEST = /\] "(?:-?|<BADREQ>|- error:[^"]*)" (?:0|4\d\d) /;
/** What HAProxy and Squid write in place of such a request, as a member of JSON or another named field. */
const NAMES_NO_REQUEST =
  /"(?:<BADREQ>|(?:[A-Z-]{1,20} )?error:(?:transaction-end-before-headers|accept-client-connection|secure-accept-fail|invalid-request)\b[^"]*)"/;
const NO_REQUEST: How = { isNoCall: ({ text: line }) => NAMES_NO_REQUEST.test(line) };

const NGINX_TIMED = new RegExp(
  // `$request_time` follows the user agent, in seconds with three decimals; a name or a request length may precede it, and a
  // few quoted fields. APISIX has the host before the request, and the time behind the bytes.
  String.raw`^${BEFORE_DATE}\[(?<at>${CLF})\] (?:[\w.:[\]-]+ )?${QUOTED} \d{3} \d+ (?:${QUOTED} ${QUOTED}(?: (?:\w+=)?${QUOTED}){0,3} (?:\d+ )?"?(?:(?:\w+=\S+ ){0,8}?(?:rt|request_time|req_time|reqtime|duration)[=:])?"?)?(?<took>\d+\.\d{3})(?:[" ]|$)`,
);

/** What nginx, its container, the ingress controller, and gunicorn write to the same stream as their access log. */
const BESIDE_COMMON =
  /^(?:\d{4}\/\d\d\/\d\d [\d:]{8} \[[a-z]+\] \d+#\d+: |\/docker-entrypoint\.sh: |[IWEF]\d{4} [\d:]{8}\.\d+ +\d+ \S+:\d+\] |\[[\d-]{10} [\d:]{8} [+-]\d{4}\] \[\d+\] \[[A-Z]+\] )/;
const BESIDE_NGINX: How = {
  isNoCall: (line) =>
    BESIDE_COMMON.test(line.text) ||
    HAS_NO_REQUEST.test(line.text) ||
    NAMES_NO_REQUEST.test(line.text) ||
    line.field("request") === "",
};
/** What Envoy and Istio's agent write to the same stream, and bytes that Envoy could not read as a request (flag DPE). */
const BESIDE_ENVOY: How = {
  isNoCall: (line) =>
    /^(?:(?:\S+Z\t)?(?:debug|info|warn|error)\t|\[[\d-]{10} [\d:.]{12}\]\[\d+\]\[[a-z]+\]|\[\S+Z\] "- - )/.test(
      line.text,
    ) || ["method", "path"].every((name) => /^(?:null|-)$/.test(`${line.field(name)}`)),
};

const GENERAL_NAMES = GENERAL_FIELDS.slice(0, 7).join(", ");
const GENERAL_NOTATIONS: readonly (readonly [NonNullable<LogLine["notation"]>, string])[] = [
  ["json", `JSON with one of ${GENERAL_NAMES}: pino, bunyan, winston, structlog, slog, Logstash, zap, journald`],
  ["csv", `CSV below a line with the names of its columns, one of them ${GENERAL_NAMES}`],
  ["logfmt", `key=value (logfmt) or key:value (LTSV) with one of ${GENERAL_NAMES}`],
];

/** Which points and spans are calls: k6 writes one of a call's duration, a trace holds what a server called as well. */
const k6Metric = (line: LogLine): unknown => line.field("metric") ?? line.field("metric_name");
const k6Time = (line: LogLine): LineTime | null => {
  if (k6Metric(line) !== "http_req_duration") return null;
  const took = line.field("data.value") ?? line.field("metric_value");
  return timed(member("data.time", "timestamp")(line), "end", tookMs(took, "ms"));
};
const isSpan = (line: LogLine): boolean => line.field("startTimeUnixNano") !== undefined;
const spanTime = (line: LogLine): LineTime | null => {
  const kind = line.field("kind");
  return kind === 2 || kind === "SPAN_KIND_SERVER" ? timed(epoch("startTimeUnixNano", "ns")(line), "start") : null;
};

// biome-ignore format: a row for each format
export const LOG_FORMATS: readonly LogFormat[] = [
  row(["alb", "request_creation_time", "AWS Application Load Balancer: type, time, app/name/id"], {}, albTime),
  text(["nlb-tls", "tls_connection_creation_time", "AWS Network Load Balancer, TLS: tls, version, time, net/name/id"], "start", NLB, "ms"),
  text(["elb", "timestamp", "AWS Classic Load Balancer: time, name, client, backend, three times"], "start",
    new RegExp(String.raw`^(?<at>${ISO}) \S+ \S+:\d+ (?:\S+:\d+|-) ${THREE_TIMES} (?:\d{3}|-) (?:\d{3}|-) \d+ \d+ "`)),
  text(["s3", "time", "AWS S3: owner, bucket, [date], address, requester, id, REST.GET.OBJECT"], "start",
    new RegExp(String.raw`^\S+ \S+ \[(?<at>${CLF})\] \S+ \S+ \S+ [A-Z][A-Z0-9]*\.[A-Z]+[A-Z_.]* `)),
  w3c(["cloudfront", "date and time", "AWS CloudFront: W3C with #Fields of x-edge-…"], "cloudfront"),
  w3c(["iis", "date and time", "IIS: W3C with #Software: Microsoft… or its columns in #Fields"], "iis", "ms"),
  w3c(["w3c", "date and time", "W3C extended log: date and time named in #Fields"], "other"),
  text(["haproxy", "accept_date", "HAProxy httplog or tcplog: client:port [10/Oct/2000:13:55:36.123] frontend"], "start",
    new RegExp(String.raw`^\S+ \[(?<at>${CLF_WITHOUT_ZONE})\] \S+ \S+ (?:(?:[-+]?\d+\/)+\+?(?<took>\d+) )?`), "ms",
    { isNoCall: (line) => /^(?:Proxy|Server|[Bb]ackend|Health check|Stopping|\[(?:NOTICE|WARNING|ALERT)\]) |"<BADREQ>"/.test(line.text) }),
  text(["envoy", "START_TIME", 'Envoy, Istio: [2016-04-15T20:17:00.310Z] "GET /…'], "start",
    new RegExp(String.raw`^\[(?<at>\d{4}-\d\d-\d\dT[\d:]{8}\.\d{3}Z)\] "(?:[^"]*" \d+ \S+ (?:\S+ \S+ ${QUOTED} )?\d+ \d+ (?<took>\d+) )?`), "ms", BESIDE_ENVOY),
  text(["traefik", "StartUTC", "Traefik: common, at its end router, server and a duration such as 2ms"], "start",
    new RegExp(String.raw`^${BEFORE_DATE}\[(?<at>${CLF})\] ".* (?<took>\d+)ms$`), "ms"),
  text(["heroku", "time", "Heroku router: time heroku[router]: at=info … connect=1ms service=18ms"], "end",
    new RegExp(String.raw`^(?:(?:\d+ )?<\d{1,3}>1 )?(?<at>${ISO}) (?:heroku\[router\]:|\S+ heroku router - ) ?at=.*?(?: service=(?<took>\d+ms)|$)`), "ms",
    { isNoCall: (line) => /^\S+ (?:app|heroku)\[(?!router\])[^\]]*\]: /.test(line.text) }),
  text(["gin", "time", "Gin, KrakenD: [GIN] 2026/10/10 - 20:55:36 | 200 | 1.5ms | address"], "end",
    new RegExp(String.raw`^\[GIN\] (?<end>${ISO}) \| *\d{3} \| *(?:(?<took>\d+(?:\.\d+)?(?:ns|µs|ms|s)) \|)?`), "s",
    { isNoCall: (line) => /^\[GIN-debug\] /.test(line.text) }),
  // Squid pads the duration to six characters, and names its peer by HIER_… or …_PARENT.
  text(["trafficserver", "cqtq", "Traffic Server, format squid: 1286536309.586 921 address TCP_MISS/200"], "start",
    /^(?<at>\d{10}\.\d{3}) (?<took>\d+) \S+ [A-Z_]+\/\d{3} (?!.* (?:HIER_\w+|\w+_PARENT)\/)/, "ms"),
  text(["squid", "time", "Squid: 1286536309.586    921 address TCP_MISS/200"], "end",
    /^(?<at>\d{10}\.\d{3}) +(?<took>\d+) \S+ [A-Z_]+\/\d{3} /, "ms", { isNoCall: (line) => /^\d{10}\.\d{3} .* error:/.test(line.text) }),
  text(["caddy", "the beginning of the line", "Caddy, console: 2021/05/12 17:38:12.000 INFO http.log.access handled request {…}"], "end",
    new RegExp(String.raw`^(?<at>${ISO})\t\w+\thttp\.log\.access\S*\thandled request\t\{.*"duration": "?(?<took>[\d.]+(?:ms|µs|s)?)`)),
  text(["nginx-timed", "time_local", "nginx combined and $request_time behind it; ingress-nginx"], "end", NGINX_TIMED, "s", BESIDE_NGINX),
  text(["common", "[date] (Apache writes the start, nginx the end)", 'Apache or nginx, common and combined: [10/Oct/2000:13:55:36 -0700] "GET /…'], "logged",
    new RegExp(String.raw`^${BEFORE_DATE}\[(?<at>${CLF})\]`), "s", BESIDE_NGINX),
  json(["alb", "request_creation_time", "AWS Application Load Balancer: type, time, app/name/id"], { at: member("request_creation_time"), of: "start" }),
  json(["api-gateway", "requestTimeEpoch", "AWS API Gateway, JSON: requestTimeEpoch or requestTime"],
    { at: (line) => epoch("requestTimeEpoch", "ms")(line) ?? member("requestTime")(line), of: "start" }),
  json(["kong", "started_at", "Kong, JSON: started_at"], { at: epoch("started_at", "ms"), of: "start", took: ["latencies.request", "ms"] }),
  json(["traefik-json", "StartUTC", "Traefik, JSON: StartUTC or StartLocal"], { at: member("StartUTC", "StartLocal"), of: "start" }),
  json(["caddy", "ts", "Caddy, JSON: ts, request"],
    { at: member("ts"), of: "end", took: ["duration", "s"], isTook: (took) => !Number.isInteger(took), beside: ["request.method"] },
    { isNoCall: (line) => line.field("ts") !== undefined && line.field("level") !== undefined && line.field("request") === undefined }),
  json(["gcp", "timestamp", "Google Cloud load balancer, JSON: timestamp, httpRequest"],
    { at: member("timestamp"), of: "start", took: ["httpRequest.latency", "s"], beside: ["httpRequest.requestMethod"] }),
  ofCalls(["azure", "time", "Azure Application Gateway, Front Door, CDN or App Service, JSON: category …AccessLog or AppServiceHTTPLogs"], OF_A_SHIELD, azureTime),
  json(["cloudflare", "EdgeStartTimestamp", "Cloudflare Logpush, JSON: EdgeStartTimestamp"], { at: member("EdgeStartTimestamp"), of: "start" }),
  json(["akamai", "reqTimeSec", "Akamai DataStream, JSON: reqTimeSec"], { at: epoch("reqTimeSec", "s"), of: "start" }),
  json(["fastly", "time_start", "Fastly, JSON: time_start"], { at: member("time_start"), of: "start", took: ["time_elapsed", "us"] }),
  json(["envoy-json", "start_time", "Envoy, Istio, JSON: start_time"], { at: member("start_time"), of: "start", took: ["duration", "ms"] }, BESIDE_ENVOY),
  json(["nginx-json", "time_local, time_iso8601 or msec", "nginx, JSON: time_local, time_iso8601, msec or request_time; with or without escape=json"],
    { at: (line) => (isNginx(line) ? nginxMoment(line) : null), of: "end", took: ["request_time", "s"] }, BESIDE_NGINX),
  json(["pino-http", "time", "pino-http, Fastify: time, responseTime"],
    { at: member("time"), of: "end", took: ["responseTime", "ms"], beside: ["responseTime", "level"] },
    { isNoCall: (line) => typeof line.field("level") === "number" && line.field("time") !== undefined && line.field("responseTime") === undefined }),
  json(["har", "startedDateTime", "HTTP Archive (HAR): log.entries"], { at: member("startedDateTime"), of: "start" }),
  row(["k6", "time", "k6, JSON or CSV output: points of http_req_duration"], { isNoCall: (line) => typeof k6Metric(line) === "string" }, k6Time),
  row(["otel", "startTimeUnixNano", "OpenTelemetry, JSON: spans of kind SERVER"], { isNoCall: isSpan }, spanTime),
  ...GENERAL_NOTATIONS.flatMap(([notation, of]) => GENERAL_FIELDS.map((name) =>
    ofCalls([notation, name, of], { general: "fields", ...NO_REQUEST },
      (line) => (line.notation === notation ? timed(momentOf(line.named(name)), "logged") : null)))),
  json(["json", "a member with a date", "JSON with a date such as 10/Oct/2000:13:55:36 -0700 in a member"],
    { at: clfInAnyMember, of: "logged" }, { general: "fields", ...NO_REQUEST }),
  text(["iso", "the beginning of the line", "any line that begins with a date and time such as 2026-10-10T20:55:36.250Z, perhaps behind a level"], "logged",
    new RegExp(String.raw`^(?:<\d{1,3}>(?:1 )?)?(?:\[?[A-Za-z]{1,8}\]?[:,]? +)?\[?(?<at>${ISO})(?=$|[\s\]|,;:])`), "s", { general: "line" }),
  text(["bracketed", "[date]", 'lines such as common, with another date: [10/Oct/2000 13:55:36] "GET /…'], "logged",
    new RegExp(String.raw`^${BEFORE_DATE}\[(?<at>${CLF_WITHOUT_ZONE}|${ISO})\]`), "s", { general: "line" }),
  row(["epoch", "the beginning of the line", "lines that begin with seconds or milliseconds since 1970"], { byNameOnly: true },
    ({ text: line }) => timed(/^\d{10,19}(?:\.\d+)?(?=$|[\s,;|])/.test(line) ? momentAtStart(line) : null, "logged")),
];

export const LOG_FORMAT_NAMES: readonly string[] = [...new Set(LOG_FORMATS.map(({ name }) => name))];

/**
 * A format for a field that the user names: a JSON member, a W3C column, a key of `key=value` or `key:value`, or the
 * number of a column, between blanks or else between commas, semicolons, bars or tabs.
 */
export const namedField = (field: string): LogFormat => {
  const before = Math.max(0, Number(field) - 1);
  const starts = /^\d{1,3}$/.test(field)
    ? [String.raw`^\s*(?:\S+\s+){${before}}`, String.raw`^\s*(?:[^,;|\t]*[,;|\t]\s*){${before}}`]
    : [String.raw`(?:^|[\s,;])${RegExp.escape(field)}[=:]`];
  const patterns = starts.map((start) => new RegExp(start));
  return row(["named-field", field, `lines with the field ${field}`], {}, (line) => {
    const value = line.field(field);
    const named = timed(momentOf(value), "logged");
    if (named !== null || (value !== undefined && line.notation !== "logfmt")) return named;
    for (const pattern of patterns) {
      const found = pattern.exec(line.text);
      const moment = found && momentAtStart(line.text.slice(found.index + found[0].length));
      if (moment !== null) return timed(moment, "logged");
    }
    return null;
  });
};
