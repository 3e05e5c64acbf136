import { describe, expect, test } from "vitest";
import { LOG_FORMATS } from "./log-formats.ts";
import { type LogOptions, LogReader, type LogRefusal, type ReadLog } from "./read-log.ts";

const read = (lines: readonly string[], options: LogOptions = {}): ReadLog | LogRefusal => {
  const reader = new LogReader(options);
  for (const line of lines) {
    reader.see(line);
    if (reader.refusal !== null) break;
  }
  return LogReader.end([reader]);
};

const readWell = (lines: readonly string[], options: LogOptions = {}): ReadLog => {
  const log = read(lines, options);
  if ("code" in log) throw new Error(`refused: ${JSON.stringify(log)}`);
  return log;
};

const at = (iso: string): number => Date.parse(iso);
const UTC_0 = at("2026-10-10T20:55:36Z");

/** A line of each format as its documentation has it, and when its call began. Two of them make a log. */
// biome-ignore format: lines of logs, a row each
const SAMPLES: readonly (readonly [format: string, startsAt: string, line: string, ...above: string[]])[] = [
  ["alb", "2018-07-02T22:22:48.364Z", 'http 2018-07-02T22:23:00.186641Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.46.0" - - arn:aws:elasticloadbalancing:us-east-2:123456789012:targetgroup/my-targets/73e2d6bc24d8a067 "Root=1-58337262-36d228ad5d99923122bbe354" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-" "10.0.0.1:80" "200" "-" "-"'],
  ["alb", "2018-07-02T22:22:59.685Z", 'h2 2018-07-02T22:23:00.186Z app/my-loadbalancer/50dc6c495c0c9188 192.168.131.39:2817 - -1 0.501 -1 502 - 34 366 "GET https://www.example.com:443/ HTTP/2.0" "curl/7.46.0" ECDHE TLSv1.2 arn:x "Root=1"'],
  ["nlb-tls", "2018-12-20T02:59:30.5Z", 'tls 2.0 2018-12-20T02:59:40 net/my-network-loadbalancer/c6e77e28c25b2234 g3d4b5e8bb8464cd 72.21.218.154:51341 172.100.100.185:443 5 2 98 246 - arn:aws:acm:us-east-2:671290407336:certificate/2a108f19 - ECDHE-RSA-AES128-SHA tlsv12 - my-network-loadbalancer.com h2 h2 "h2","http/1.1" 2018-12-20T02:59:30'],
  ["nlb-tls", "2022-09-27T17:10:23.476Z", "tls 2.0 2022-09-27T17:10:23 net/k8s/809b86b470cfa0ff f0f22c45225e4663 192.168.18.161:60808 192.168.103.168:443 24 16 140 518 - arn:x - ECDHE tlsv12 - k8s.elb.us-east-1.amazonaws.com - - -"],
  ["haproxy", "2009-02-06T12:14:14.655Z", 'Feb  6 12:14:14 haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/<NOSRV> 10/-1/-1/-1/+109 503 212 - - SC-- 1/1/1/1/0 0/0 "GET / HTTP/1.1"'],
  ["caddy", "2021-05-12T17:38:12.5Z", '{"level":"info","ts":1620841092,"logger":"http.log.access","request":{"method":"GET","uri":"/"},"status":200}'],
  ["heroku", "2013-11-30T06:45:29.5Z", '83 <158>1 2013-11-30T06:45:29+00:00 host heroku router - at=error code=H10 dyno= connect= service= status=503 bytes='],
  ["elb", "2015-05-13T23:39:43.945Z", '2015-05-13T23:39:43.945958Z my-loadbalancer 192.168.131.39:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -'],
  ["s3", "2019-02-06T00:00:38.5Z", '79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be amzn-s3-demo-bucket [06/Feb/2019:00:00:38 +0000] 192.0.2.3 79a59df900b949e5 3E57427F3EXAMPLE REST.GET.VERSIONING - "GET /?versioning HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" -'],
  ["cloudfront", "2019-12-04T21:02:30.5Z", "2019-12-04\t21:02:31\tLAX1\t392\t192.0.2.100\tGET\td111111abcdef8.cloudfront.net\t/index.html\t200\t-\tMozilla/5.0\t-\t-\tHit\tSOX4xwn4XV6Q4==\td111111abcdef8.cloudfront.net\thttps\t23\t1.000\t-", "#Version: 1.0", "#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id x-host-header cs-protocol cs-bytes time-taken x-forwarded-for"],
  ["iis", "2012-11-28T22:26:05.468Z", "2012-11-28 22:26:33 192.168.0.21 GET /Action.aspx - 80 AWalker 192.168.0.100 200 0 0 28032", "#Software: Microsoft Internet Information Services 7.5", "#Version: 1.0", "#Date: 2012-11-28 00:00:00", "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip sc-status sc-substatus sc-win32-status time-taken"],
  ["w3c", "1996-05-02T17:42:12.5Z", "17:42:15 3 /default.htm", "#Version: 1.0", "#Date: 1996-05-02 17:42:15", "#Fields: time time-taken cs-uri"],
  ["haproxy", "2009-02-06T12:14:14.655Z", 'Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"'],
  ["haproxy", "2009-02-06T12:12:51.443Z", "10.0.1.2:33313 [06/Feb/2009:12:12:51.443] fnt bck/srv1 0/0/5007 212 -- 0/0/0/0/3 0/0"],
  ["envoy", "2016-04-15T20:17:00.310Z", '[2016-04-15T20:17:00.310Z] "POST /api/v1/locations HTTP/2" 204 - 154 0 226 100 "10.0.35.28" "nsq2http" "cc21d9b0-cf5c-432b-8c7e-98aeb7988cd2" "locations" "tcp://10.0.2.1:80"'],
  ["envoy", "2020-11-25T21:26:18.409Z", '[2020-11-25T21:26:18.409Z] "GET /status/418 HTTP/1.1" 418 - via_upstream - "-" 0 135 3 1 "-" "curl/7.73.0-DEV" "84961386-6d84" "httpbin:8000" "127.0.0.1:80" inbound|8000|| 127.0.0.1:41854 10.44.1.27:80 10.44.1.23:37652 - default'],
  ["traefik", "2018-08-31T08:12:12.5Z", '192.168.99.1 - - [31/Aug/2018:08:12:12 +0000] "GET /whoami HTTP/1.1" 200 343 "-" "Mozilla/5.0" 2 "whoami@docker" "http://172.17.0.3:80" 1500ms'],
  ["iso", "2026-10-10T20:55:36.5Z", '[2026-10-10T20:55:36+00:00] "GET / HTTP/1.1" 200 0.5'],
  ["envoy", "2026-10-10T20:55:36.310Z", '2026-10-10T20:55:38.310123Z [2026-10-10T20:55:36.310Z] "GET / HTTP/2" 204 - 154 0 226 100 "-"'],
  ["caddy", "2021-05-12T17:38:12.4995Z", '{"level":"info","ts":1620841092.0,"request":{"method":"GET"},"duration":"501.5\u00c2\u00b5s","status":200}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", '<190>Oct 10 20:55:36 web-1 nginx: {"time_iso8601":"2026-10-10T20:55:36+00:00","request_time":"0.250"}'],
  ["heroku", "2010-09-16T15:13:46.659Z", '2010-09-16T15:13:46.677020+00:00 heroku[router]: at=info method=GET path="/path" host=myapp.herokuapp.com request_id=8601b555 fwd="204.204.204.204" dyno=web.1 connect=1ms service=18ms status=200 bytes=13 protocol=http'],
  ["trafficserver", "2026-10-10T20:55:36.250Z", `${((UTC_0 + 250) / 1000).toFixed(3)} 415 127.0.0.1 TCP_MISS/200 227 GET http://127.0.0.1:8080/x?ms=400 - DIRECT/127.0.0.1 text/html`],
  ["squid", "2026-10-10T20:55:35.835Z", `${((UTC_0 + 250) / 1000).toFixed(3)} 415 127.0.0.1 TCP_MISS/200 227 GET http://127.0.0.1:8080/x? - HIER_DIRECT/127.0.0.1 text/html`],
  ["caddy", "2026-10-10T20:55:36.250Z", '2026/10/10 20:55:36.427\t\u001b[34mINFO\u001b[0m\thttp.log.access.log1\thandled request\t{"request": {"remote_ip": "127.0.0.1", "uri": "/x"}, "user_id": "", "duration": 0.177, "size": 2, "status": 200}'],
  ["squid", "2010-10-08T02:08:28.665Z", "1286503709.586    921 192.168.0.68 TCP_MISS/200 507 POST http://rcv-srv37.example/ - DIRECT/10.0.0.1 text/plain"],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET /v1/maps HTTP/1.1" 200 2326 "-" "curl/8" 0.123'],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET /v1/maps HTTP/1.1" 200 2326 "-" "curl/8" "10.0.0.1" rt=0.123 uct="0.000"'],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "c" "-" "a.example" sn="a.example" rt=0.123 ua="10.0.0.1:80"'],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET /v1/maps HTTP/1.1" 200 2326 "-" "curl/8" 415 0.123 [default-web-80] [] 10.0.0.2:80 2326 0.122 200 7b6e'],
  ["common", "2026-10-10T20:55:36.5Z", '203.0.113.9 - alice [10/Oct/2026:13:55:36 -0700] "GET /v1/maps?key=svc_sk_live_x HTTP/1.1" 200 2326'],
  ["common", "2026-10-10T20:55:36.5Z", 'www.example.com:443 203.0.113.9, 10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 2326 "-" "curl [8]" 123456'],
  ["common", "2026-10-10T20:55:36.5Z", '<134>2026-10-10T20:55:40Z cache-fra-1 fastly[1234]: 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12'],
  ["common", "2026-10-10T20:55:36.5Z", '2026-10-10T20:55:39.669794202Z stdout F 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "-"'],
  ["common", "2026-10-10T20:55:36.5Z", String.raw`{"log":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12\n","stream":"stdout","time":"2026-10-10T20:55:39.1Z"}`],
  ["common", "2026-10-10T20:55:36.5Z", 'web-1  | 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12'],
  ["common", "2026-10-10T20:55:36.5Z", '"203.0.113.9, 10.0.0.1" - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12'],
  ["common", "2026-10-10T20:55:36.5Z", '"[01/Jan/2000:00:00:00 +0000]" - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 "[01/Jan/2001:00:00:00 +0000]"'],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '"203.0.113.9, 10.0.0.1" - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "curl/8" 0.123'],
  ["api-gateway", "2026-10-10T20:55:36.250Z", `{"requestId":"c6af9ac6","ip":"203.0.113.9","requestTimeEpoch":${UTC_0 + 250},"requestTime":"10/Oct/2026:20:55:36 +0000","status":"200"}`],
  ["api-gateway", "2026-10-10T20:55:36.250Z", `{"requestId":"c6af9ac6","requestTimeEpoch":"${UTC_0 + 250}","status":"200"}`],
  ["api-gateway", "2026-10-10T20:55:36.5Z", '{ "requestId":"c6af9ac6", "requestTime":"10/Oct/2026:20:55:36 +0000", "status":"200" }'],
  ["kong", "2026-10-10T20:55:36.250Z", `{"latencies":{"request":515,"kong":58,"proxy":457},"service":{"created_at":1614232642},"request":{"uri":"/"},"started_at":${UTC_0 + 250}}`],
  ["traefik-json", "2026-10-10T20:55:36.250Z", '{"ClientHost":"10.0.0.1","Duration":1500000000,"StartLocal":"2026-10-10T22:55:36.25+02:00","StartUTC":"2026-10-10T20:55:36.250123456Z","level":"info","time":"2026-10-10T20:55:38Z"}'],
  ["caddy", "2021-05-12T17:38:11Z", '{"level":"info","ts":1620841092.0,"logger":"http.log.access","msg":"handled request","request":{"method":"GET","uri":"/"},"duration":1.5,"status":200}'],
  ["gcp", "2026-10-10T20:55:36.250Z", '{"httpRequest":{"latency":"1.5s","requestMethod":"GET","status":200},"insertId":"1","receiveTimestamp":"2026-10-10T20:55:39Z","timestamp":"2026-10-10T20:55:36.250Z"}'],
  ["azure", "2026-10-10T20:55:36.250Z", '{"time":"2026-10-10T20:55:36.750Z","resourceId":"/X","category":"FrontDoorAccessLog","properties":{"httpMethod":"GET","timeTaken":"0.5"}}'],
  ["azure", "2026-10-10T20:55:36.250Z", '{"timeStamp":"2026-10-10T20:55:36.750Z","category":"ApplicationGatewayAccessLog","properties":{"instanceId":"ApplicationGatewayRole_IN_0","timeTaken":500}}'],
  ["azure", "2026-10-10T20:55:36.250Z", '{"records":[{"time":"2026-10-10T20:55:36.480Z","category":"AzureCdnAccessLog","operationName":"Microsoft.Cdn/Profiles/AccessLog/Write","properties":{"HttpMethod":"GET","HttpStatusCode":"200","isReceivedFromClient":true,"TimeTaken":"0.230"}}]}'],
  ["azure", "2026-10-10T20:55:36.250Z", String.raw`{"time":"2026-10-10T20:55:36.670Z","category":"AppServiceHTTPLogs","properties":"{\"CsMethod\":\"GET\",\"TimeTaken\":420,\"ScStatus\":\"200\"}"}`],
  ["azure", "2026-10-10T20:55:36.250Z", '{"time":"2026-10-10T20:55:36.670Z","category":"AppServiceHTTPLogs","properties":{"CsMethod":"GET","TimeTaken":420,"ScStatus":"200"}}'],
  ["gin", "2026-10-10T20:55:35Z", '[GIN] 2026/10/10 - 20:55:36 | 200 |    1.500000s |       10.0.0.1 | GET      "/x"'],
  ["iis", "2026-10-10T20:55:36.310Z", '2026-10-10 20:55:37.810 /x 200 "WEB1" 1500', "#Software: IIS Advanced Logging Module", "#Fields:  date time cs-uri-stem sc-status s-computername TimeTakenMS"],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12 "-" "curl/8" upstream_response_time=0.122 request_time=0.123'],
  ["nginx-timed", "2026-10-10T20:55:36.377Z", '127.0.0.1 - - [10/Oct/2026:20:55:36 +0000] 127.0.0.1:9080 "GET /get HTTP/1.1" 200 403 0.123 "-" "curl/8" 127.0.0.1:1980 200 0.122 "http://127.0.0.1:1980"'],
  ["w3c", "2026-10-10T20:55:36.377Z", "2026-10-10 20:55:36 123 203.0.113.9 200 TCP_HIT GET", "#Software: SGOS 6.7.5.3", "#Fields: date time time-taken c-ip sc-status s-action cs-method"],
  ["w3c", "2026-10-10T20:55:36.377Z", "2026-10-10\t20:55:36\tGET\t/x\t200\t0.123", "#Version:\t1.0", "#Fields:\tdate time cs-method cs-uri sc-status time-taken", "#Software:\tWebLogic"],
  ["cloudflare", "2026-10-10T20:55:36.250Z", `{"ClientIP":"203.0.113.9","EdgeEndTimestamp":${UTC_0 + 900}000000,"EdgeStartTimestamp":${UTC_0 + 250}000000}`],
  ["cloudflare", "2026-10-10T20:55:36.5Z", '{"EdgeEndTimestamp":"2026-10-10T20:55:38Z","EdgeStartTimestamp":"2026-10-10T20:55:36Z"}'],
  ["akamai", "2026-10-10T20:55:36.250Z", `{"reqTimeSec":"${UTC_0 / 1000}.250","cliIP":"203.0.113.9"}`],
  ["common", "2026-10-10T20:55:36.5Z", '2026-10-10T20:55:37+0000 web-1 nginx[12]: 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 12'],
  ["iis", "2026-10-10T20:55:36.450Z", "2026-10-10 20:55:36 10.0.0.1 WEB1 200 50", "#Version: 1.0", "#Start-Date: 2026-10-10 20:00:00", "#Fields: date time c-ip s-computername sc-status time-taken"],
  ["fastly", "2026-10-10T20:55:36.5Z", '{"service_id":"x","time_start":"2026-10-10T20:55:36Z","time_end":"2026-10-10T20:55:37Z","time_elapsed":1500000}'],
  ["envoy-json", "2026-10-10T20:55:36.250Z", '{"start_time":"2026-10-10T20:55:36.250Z","duration":1500,"response_code":200,"path":"/"}'],
  ["nginx-json", "2023-06-26T06:24:52.5Z", '{"time_local":"26/Jun/2023:14:24:53 +0800","request_time":"1.000","status":"200"}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", `{"msec":"${(UTC_0 + 750) / 1000}","time_iso8601":"2026-10-10T20:55:36+00:00","request_time":0.500}`],
  ["nginx-json", "2026-10-10T20:55:36.5Z", String.raw`{"time_local":"10/Oct/2026:20:55:36 +0000","agent":"a \x22quoted\x22 \xD1\x8F","upstream":-,"times":0.001, 0.002 : -,"bytes":}`],
  ["pino-http", "2026-10-10T20:55:36.250Z", `{"level":30,"time":${UTC_0 + 750},"pid":1,"res":{"statusCode":200},"responseTime":500,"msg":"request completed"}`],
  ["json", "2026-10-10T20:55:36.250Z", `{"level":30,"time":${UTC_0 + 250},"pid":1,"hostname":"h","msg":"GET /"}`],
  ["json", "2026-10-10T20:55:36.250Z", '{"name":"app","level":30,"time":"2026-10-10T20:55:36.250Z","v":0}'],
  ["json", "2026-10-10T20:55:36.250Z", '{"@timestamp":"2026-10-10T20:55:36.250Z","@version":"1","message":"GET /"}'],
  // Milliseconds and nanoseconds are whole numbers, which seconds are not.
  ["caddy", "2021-05-12T17:38:12.250Z", '{"level":"info","ts":1620841092250,"request":{"method":"GET"},"duration":1500,"status":200}'],
  ["json", "2026-10-10T20:55:36.250Z", '{"timestamp":"2026-10-10T20:55:36.250Z","request_time":120,"path":"/"}'],
  ["json", "2026-10-10T20:55:36.005Z", '{"time":"10/Oct/2026:20:55:36.005","ms":005,"status":200}'],
  ["json", "2026-10-10T20:55:36.5Z", '{"when":"10/Oct/2026:20:55:36 +0000","path":"/"}'],
  ["iso", "2026-10-10T20:55:36.250Z", "2026-10-10T22:55:36.25+0200 INFO GET /v1/design/styles 200"],
  ["iso", "2026-10-10T20:55:36.250Z", "[2026-10-10 22:55:36.250000 +0200] 203.0.113.9 GET"],
  ["iso", "2026-10-10T20:55:36.250Z", "2026-10-10 15:55:36.250-05 GET"],
  ["iso", "2026-10-10T20:55:36.250Z", "2026-10-10 20:55:36.250 UTC GET"],
  ["iso", "2026-10-10T20:55:36.250Z", "2026-10-10T20:55:36.250Z -1200 GET"],
  ["iso", "2026-10-10T20:55:36.250Z", "[2026-10-10 20:55:36,250] INFO GET /v1/design/styles"],
  ["alb", "2026-10-10T20:55:36.250Z", '"h2","GET","https://a/?b, c","curl ""x""","2026-10-10T20:55:36.250000Z"', '"type","request_verb","request_url","user_agent","request_creation_time"'],
  ["cloudfront", "2026-10-10T20:55:36.250Z", `{"date":"2026-10-10","time":"20:55:36","x-edge-location":"LAX1","time-taken":"0.500","timestamp(ms)":"${UTC_0 + 750}"}`],
  ["cloudfront", "2026-10-10T20:55:36Z", '{"date":"2026-10-10","time":"20:55:36","x-edge-location":"LAX1","time-taken":"0.500"}'],
  ["har", "2026-10-10T20:55:36.250Z", '{"log":{"version":"1.2","entries":[{"request":{"method":"GET"},"startedDateTime":"2026-10-10T20:55:36.250Z","time":80}]}}'],
  ["otel", "2026-10-10T20:55:36.250Z", `{"resourceSpans":[{"resource":{},"scopeSpans":[{"spans":[{"kind":2,"startTimeUnixNano":"${UTC_0 + 250}000000","attributes":[{"key":"a","value":{}}]}]}]}]}`],
  ["k6", "2026-10-10T20:55:36.250Z", '{"metric":"http_req_duration","type":"Point","data":{"time":"2026-10-10T20:55:36.750Z","value":500,"tags":{}}}'],
  ["k6", "2026-10-10T20:55:36Z", `http_req_duration,${UTC_0 / 1000},500.000,GET`, "metric_name,timestamp,metric_value,method"],
  ["azure", "2026-10-10T20:55:36.250Z", '{"records":[{"time":"2026-10-10T20:55:36.750Z","category":"FrontDoorAccessLog","properties":{"timeTaken":"0.5"}}]}'],
  // What collectors wrap around a line has the moment at which they read it.
  ["nginx-timed", "2026-10-10T20:55:36.377Z", String.raw`{"@timestamp":"2026-10-10T20:55:40Z","log":{"offset":3},"message":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12 \"-\" \"c\" 0.123"}`],
  ["common", "2026-10-10T20:55:36.5Z", String.raw`{"attrs":{"tag":"x"},"log":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12\n","stream":"stdout","time":"2026-10-10T20:55:39.1Z"}`],
  ["common", "2026-10-10T20:55:36.5Z", String.raw`{"_index":"n","_source":{"@timestamp":"2026-10-10T20:55:40Z","message":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12"}}`],
  ["common", "2026-10-10T20:55:36.5Z", String.raw`{"status":"success","data":{"result":[{"stream":{},"values":[["${UTC_0 + 4000}000000","203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12"]]}]}}`],
  ["common", "2026-10-10T20:55:36.5Z", String.raw`{"messageType":"DATA_MESSAGE","logEvents":[{"id":"1","timestamp":${UTC_0 + 4000},"message":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] \"GET / HTTP/1.1\" 200 12"}]}`],
  ["common", "2026-10-10T20:55:36.5Z", '2026-10-10 20:55:40.000,"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] ""GET / HTTP/1.1"" 200 12"', "@timestamp,@message"],
  ["common", "2026-10-10T20:55:36.5Z", '2026-10-10T20:55:40+00:00\tnginx.access\t{"message":"203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] x"}'],
  ["common", "2026-10-10T20:55:36.5Z", '2026-10-10T20:55:40Z {app="nginx", job="x"} 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200'],
  ["common", "2026-10-10T20:55:36.5Z", `{"__REALTIME_TIMESTAMP":"${UTC_0 + 4000}000","MESSAGE":${JSON.stringify([...Buffer.from("\u001b[32m203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] x")])}}`],
  ["common", "2026-10-10T20:55:36.5Z", '<190>1 2026-10-10T20:55:40Z web nginx 12 ID [a@1 b="x\\]y"][c@1 d="e"] 203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200'],
  ["json", "2026-10-10T20:55:36.250Z", 'web-1  | 2026-10-10T20:55:40.123456789Z {"time":"2026-10-10T20:55:36.250Z","path":"/"}'],
  ["json", "2026-10-10T20:55:36.250Z", '2026-10-10T20:55:40Z {"time": "2026-10-10T20:55:36.250Z", "path": "/"}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", 'Sat 2026-10-10 20:55:40 UTC web-1 nginx[12]: {"time_iso8601":"2026-10-10T20:55:36+00:00","request_time":"0.250"}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", 'api-7f nginx {"time_iso8601":"2026-10-10T20:55:36+00:00","request_time":"0.250"}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", '[pod/api-7f/nginx] {"time_iso8601":"2026-10-10T20:55:36+00:00","request_time":"0.250"}'],
  ["nginx-json", "2026-10-10T20:55:36.250Z", `msec=${UTC_0 / 1000 + 0.75} method=GET uri=/ request_time=0.500`],
  ["json", "2026-10-10T20:55:36.250Z", `{"__REALTIME_TIMESTAMP":"${UTC_0 + 250}000","MESSAGE":"GET / 200"}`],
  ["json", "2026-10-10T20:55:36.250Z", '{"@t":"2026-10-10T20:55:36.2500000Z","@mt":"HTTP {Method}","Elapsed":80}'],
  ["json", "2026-10-10T20:55:36.250Z", String.raw`{"@timestamp":"2026-10-10T20:55:40Z","message":"{\"time\":\"2026-10-10T20:55:36.250Z\"}"}`],
  ["json", "2026-10-10T20:55:36.250Z", '{"Timestamp":"2026-10-10T20:55:36.2500000Z","LogLevel":"Information"}'],
  // Records that a line holds beside a moment are no calls.
  ["json", "2026-10-10T20:55:36.250Z", '{"time":"2026-10-10T20:55:36.250Z","records":[{"id":1},{"id":2}]}'],
  ["csv", "2026-10-10T20:55:36.250Z", "2026-10-10 20:55:36.250 UTC,GET,https://a/", "timestamp,method,url"],
  ["csv", "2026-10-10T20:55:36.250Z", `GET;"a;b";${UTC_0 + 250}`, "method;agent;timeStamp"],
  ["csv", "2026-10-10T20:55:36.250Z", "GET\tx\t2026-10-10T20:55:36.250Z", "method\tagent\ttime"],
  ["logfmt", "2026-10-10T20:55:36.250Z", 'time=2026-10-10T20:55:36.250Z level=INFO msg="a b=c" status=200'],
  ["logfmt", "2026-10-10T20:55:36.250Z", 'level=info ts="2026-10-10T20:55:36.250Z" msg=x'],
  ["logfmt", "2026-10-10T20:55:36.5Z", "time:10/Oct/2026:20:55:36 +0000\thost:1\treq:GET / HTTP/1.1"],
  ["bracketed", "2026-10-10T20:55:36.5Z", '127.0.0.1 - - [10/Oct/2026 20:55:36] "GET / HTTP/1.1" 200 -'],
  ["bracketed", "2026-10-10T20:55:36.250Z", '127.0.0.1 - - [2026-10-10 20:55:36.250] "GET / HTTP/1.1" 200 -'],
  ["iso", "2026-10-10T20:55:36.250Z", "2026/10/10 20:55:36.250000 GET /v1/design/styles 200"],
  ["gin", "2026-10-10T20:55:36.420Z", '[GIN] 2026/10/10 - 20:55:36 |\u001b[97;42m 200 \u001b[0m| 80ms | 10.0.0.1 | GET "/"'],
  ["iso", "2026-10-10T20:55:36.250Z", '\u001b[32mINFO\u001b[0m:     2026-10-10 20:55:36,250 - 127.0.0.1:5000 - "GET / HTTP/1.1" 200'],
  ["iso", "2026-10-10T20:55:36.250Z", "<190>1 2026-10-10T20:55:36.250000Z web-1 api 12 - - GET / 200"],
];

describe("an access log", () => {
  test.each(SAMPLES)("of the format %s is known, and its call began at %s", (format, startsAt, line, ...above) => {
    // A second line a second later, so that one line is read by itself.
    const log = readWell([...above, line, line]);
    expect(log.facts).toMatchObject({ format, calls: 2, unreadable: 0, no_calls: 0 });
    const middle = ((log.atMs[0] as number) + (log.atMs[1] as number)) / 2;
    expect(Math.abs(middle - at(startsAt))).toBeLessThanOrEqual(1);
  });

  test("has a sample here for each format that is found by itself", () => {
    const found = LOG_FORMATS.filter(({ byNameOnly }) => byNameOnly !== true).map(({ name }) => name);
    expect([...new Set(SAMPLES.map(([format]) => format))].sort()).toEqual([...new Set(found)].sort());
  });

  test("of a balancer that writes the end keeps long streams where they began", () => {
    const line = (end: string, created: string): string =>
      `https ${end} app/a/b 10.0.0.1:1 10.0.0.2:80 0.0 1.0 0.0 200 200 1 2 "GET https://a:443/ HTTP/1.1" "x" - - arn "Root=1" "a" "b" 0 ${created} "forward" "-" "-"`;
    const lines = [
      line("2026-10-10T20:55:40.000000Z", "2026-10-10T20:55:39.100000Z"),
      line("2026-10-10T20:56:36.000000Z", "2026-10-10T20:55:36.100000Z"),
    ];
    const { atMs, facts } = readWell(lines);
    expect(atMs).toEqual([at("2026-10-10T20:55:36.100Z"), at("2026-10-10T20:55:39.100Z")]);
    expect(facts).toMatchObject({ field: "request_creation_time", moment: "start", zone: "stated" });
  });

  test("of W3C has no call in a comment", () => {
    const call = "2026-10-10 20:55:36 10.0.0.1 GET / 200 0 0";
    const head = "#Fields: date time c-ip cs-method cs-uri-stem sc-status sc-substatus sc-win32-status";
    const { facts } = readWell([
      "#Date: 2026-10-10 11:00:00",
      head,
      call,
      call,
      "#Date: 2026-10-10 23:00:00",
      head,
      call,
    ]);
    expect(facts).toMatchObject({ format: "iis", calls: 3, span_s: 0.667, moment: "end" });
  });

  test("of lines with thousands of dates and quotes takes no longer than its length asks for", () => {
    const hostile = '[10/Oct/2026:20:55:36 +0000] "'.repeat(20_000);
    expect(readWell([hostile, hostile]).facts).toMatchObject({ format: "common", calls: 2 });
    expect(read([`{"a":${"0".repeat(500_000)}`])).toMatchObject({ code: "format-unknown" });
  });

  test("of nginx without escape=json is read whole", () => {
    const lines = Array.from({ length: 10 }, (_, k) =>
      k < 8
        ? String.raw`{"time_local":"10/Oct/2026:20:55:3${k} +0000","request":"GET /?q=\x22a\x22 HTTP/1.1"}`
        : `{"time_local":"10/Oct/2026:20:55:3${k} +0000","request":"GET / HTTP/1.1"}`,
    );
    expect(readWell(lines).facts).toMatchObject({ format: "nginx-json", calls: 10, unreadable: 0 });
  });

  test.each([
    ["an id in front", "9000007919 10.0.0.1 GET /a 10:00:01"],
    ["an epoch in front", "1700000000.123 10.0.0.1 GET /a"],
    ["a time without a date", "10:00:01 GET /a"],
    ["words", "GET /a took 5 ms"],
    ["a date later on", "GET /a 2026-10-10T20:55:36Z"],
    ["JSON without a time", '{"id":1700000000,"path":"/a"}'],
    ["JSON with a count where a time belongs", '{"time":12.5,"path":"/a"}'],
    ["a day that there is not", '10.0.0.1 - - [31/Feb/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1'],
    ["a month that there is not", '10.0.0.1 - - [10/Foo/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1'],
  ])("with %s is not guessed at", (_, line) => {
    expect(read([line, line, line])).toMatchObject({ code: "format-unknown", line: 1, text: line });
  });

  test("that begins with an epoch is read where the format is named", () => {
    const lines = ["1700000000.250 10.0.0.1 GET /a", "1700000001.250 10.0.0.1 GET /b"];
    expect(readWell(lines, { format: "epoch" }).atMs).toEqual([1_700_000_000_250, 1_700_000_001_250]);
    expect(read(["9000007919 a", "9000007920 b"], { format: "epoch" })).toMatchObject({ code: "format-unknown" });
  });

  test.each([
    ["a member", "came_in", `{"came_in":${UTC_0 + 250},"time":"2026-10-10T21:00:00Z"}`],
    ["a member's path", "request.at", '{"request":{"at":"2026-10-10T20:55:36.250Z"}}'],
    ["a column", "3", '10.0.0.1 GET "2026-10-10T20:55:36.250Z" 200'],
    ["a column of two words", "2", "10.0.0.1 [10/Oct/2026:20:55:36.250 +0000] x"],
    ["a column between bars", "2", "10.0.0.1|10/Oct/2026:20:55:36.250 +0000|GET / HTTP/1.1|200"],
    ["a column between commas", "3", '"a, b",2026-10-10T20:55:36.250Z,200'],
    ["a key of LTSV", "time", "host:10.0.0.1\ttime:10/Oct/2026:20:55:36.250 +0000\treq:GET / HTTP/1.1"],
    ["a key", "t", 'level=info rt=1 t="2026-10-10T20:55:36.250Z" path=/'],
  ])("is read by a field that is named: %s", (_, timeField, line) => {
    const { atMs, facts } = readWell([line, line], { timeField });
    expect(atMs[0]).toBe(UTC_0 + 250);
    expect(facts).toMatchObject({ format: "named-field", field: timeField });
  });

  test("is refused where a field or a format that is named is not there", () => {
    const lines = ['{"time":"2026-10-10T20:55:36Z"}'];
    expect(read(lines, { timeField: "at" })).toMatchObject({ code: "format-unknown" });
    expect(read(lines, { timeField: "__proto__" })).toMatchObject({ code: "format-unknown" });
    expect(read(lines, { format: "alb" })).toMatchObject({ code: "format-unknown" });
  });
});

const iso = (ms: number, text = "GET /"): string => `${new Date(ms).toISOString()} ${text}`;

describe("lines that cannot be read", () => {
  const lines = (unreadable: number): string[] => [
    ...Array.from({ length: 1000 - unreadable }, (_, k) => iso(UTC_0 + k)),
    ...Array.from({ length: unreadable }, () => "half a li"),
  ];

  test("are counted up to one in a hundred, and more are refused", () => {
    expect(readWell(lines(10)).facts).toMatchObject({ calls: 990, unreadable: 10 });
    expect(read(lines(11))).toMatchObject({
      code: "unreadable",
      unreadable: 11,
      lines: 1000,
      line: 990,
      text: "half a li",
    });
  });

  test("before the first call are what a program says at its start, up to fifty, and are said", () => {
    const log = (startup: number, calls = 60): string[] => [
      ...Array.from({ length: startup }, (_, k) => `> start ${k}`),
      ...Array.from({ length: calls }, (_, k) => iso(UTC_0 + k)),
    ];
    expect(readWell(log(5)).facts).toMatchObject({ format: "iso", calls: 60, unreadable: 5 });
    expect(readWell(log(50)).facts).toMatchObject({ calls: 60, unreadable: 50 });
    expect(read(log(51))).toMatchObject({ code: "unreadable", unreadable: 51, line: 1 });
    // A format that the user names reads few lines of another one.
    expect(readWell(log(40, 40), { format: "iso" }).facts).toMatchObject({ calls: 40, unreadable: 40 });
    expect(read(log(40, 2), { format: "iso" })).toMatchObject({ code: "unreadable", unreadable: 40, lines: 42 });
    // The bound holds for what comes after them.
    expect(read([...log(5), "Bye"])).toMatchObject({ code: "unreadable", unreadable: 6 });
    expect(readWell([...log(5, 200), "Bye"]).facts).toMatchObject({ calls: 200, unreadable: 6 });
  });

  test("are left out where that is wished", () => {
    expect(readWell(lines(400), { skipUnreadable: true }).facts).toMatchObject({ calls: 600, unreadable: 400 });
  });

  test("are none where they tell of something other than a call", () => {
    const log = readWell([
      "2010-09-16T15:13:46.677020+00:00 heroku[router]: at=info connect=1ms service=18ms status=200",
      "2010-09-16T15:13:47.677020+00:00 app[web.1]: hello",
      "2010-09-16T15:13:48.677020+00:00 heroku[web.1]: State changed from starting to up",
      "2010-09-16T15:13:49.677020+00:00 heroku[router]: at=info connect=1ms service=18ms status=200",
    ]);
    expect(log.facts).toMatchObject({ format: "heroku", calls: 2, unreadable: 0, no_calls: 2 });
    const pino = (fields: string): string => `{"level":30,"time":${UTC_0},${fields}}`;
    const asked = pino('"req":{"method":"GET"},"msg":"incoming request"');
    const answered = pino('"res":{"statusCode":200},"responseTime":5,"msg":"request completed"');
    const fastify = readWell([pino('"msg":"Server listening"'), asked, answered, asked, answered]);
    expect(fastify.facts).toMatchObject({ format: "pino-http", calls: 2, unreadable: 0, no_calls: 3 });
  });

  test.each([
    [
      "common",
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1',
      "2026/10/10 20:55:36 [error] 29#29: *1 open() failed",
    ],
    [
      "common",
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1',
      "/docker-entrypoint.sh: Configuration complete",
    ],
    [
      "common",
      '127.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 2 "-" "c"',
      "[2026-10-10 20:55:36 +0000] [4194] [INFO] Booting worker with pid: 4194",
    ],
    [
      "nginx-timed",
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "c" 4 0.123',
      "I1010 20:55:36.123456       7 main.go:105] starting",
    ],
    ["nginx-json", '{"time_iso8601":"2026-10-10T20:55:36+00:00"}', "2026/10/10 20:55:36 [warn] 7#7: upstream"],
    [
      "envoy",
      '[2026-10-10T20:55:36.310Z] "GET / HTTP/2" 204 - 154 0 226 100 "-"',
      "2026-10-10T20:55:36.400000Z\tinfo\txdsproxy\tconnected",
    ],
    [
      "envoy-json",
      '{"start_time":"2026-10-10T20:55:36.310Z"}',
      "[2026-10-10 20:55:36.400][1][info][main] [source/server/server.cc:1] ready",
    ],
    // Connections that end before they hold a request: probes of a balancer, spare ones of a browser.
    [
      "common",
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 408 1 "-" "c"',
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "-" 408 - "-" "-"',
    ],
    [
      "nginx-timed",
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1 "-" "c" 0.123',
      '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "" 400 0 "-" "-" 60.001',
    ],
    [
      "nginx-json",
      '{"time_iso8601":"2026-10-10T20:55:36+00:00","request":"GET / HTTP/1.1","status":200}',
      '{"time_iso8601":"2026-10-10T20:55:36+00:00","request":"","status":400}',
    ],
    [
      "haproxy",
      '10.0.1.2:33317 [06/Feb/2009:12:14:14.655] f1 b/s 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"',
      '10.0.1.2:33318 [06/Feb/2009:12:14:14.655] f1 f1/<NOSRV> -1/-1/-1/-1/0 400 0 - - CR-- 1/1/0/0/0 0/0 "<BADREQ>"',
    ],
    [
      "squid",
      "1286503709.586    921 192.168.0.68 TCP_MISS/200 507 POST http://rcv-srv37.example/ - HIER_DIRECT/10.0.0.1 text/plain",
      "1286503709.586      0 127.0.0.1 NONE_NONE/000 0 - error:transaction-end-before-headers - HIER_NONE/- -",
    ],
    [
      "envoy",
      '[2026-11-28T20:46:35.103Z] "GET /v1/design/styles HTTP/1.1" 401 - 0 2 2 1 "-" "floodgate" "b2349a.verify.c-22" "127.0.0.1:9636" "127.0.0.1:9965"',
      '[2026-11-28T20:46:35.221Z] "- - HTTP/1.1" 400 DPE 0 11 0 - "-" "-" "-" "-" "-"',
    ],
    [
      "envoy-json",
      '{"method":"GET","path":"/v1/design/styles","response_code":401,"response_flags":"-","start_time":"2026-11-28T20:46:35.103Z"}',
      '{"method":null,"path":null,"response_code":400,"response_code_details":"http1.codec_error","response_flags":"DPE","start_time":"2026-11-28T20:46:35.221Z"}',
    ],
    [
      "json",
      '{"time":"2026-10-10T20:55:36.250Z","request":"GET /v1/design/styles HTTP/1.1","status":200,"frontend":"f1"}',
      '{"time":"2026-10-10T20:55:36.250Z","request":"<BADREQ>","status":400,"frontend":"f1"}',
    ],
    [
      "json",
      '{"ts":"2026-10-10T20:55:36.250Z","method":"GET","url":"http://a/x","status":"TCP_MISS/200"}',
      '{"ts":"2026-10-10T20:55:36.250Z","method":"-","url":"error:transaction-end-before-headers","status":"NONE_NONE/000"}',
    ],
    [
      "json",
      '{"accept_date":"10/Oct/2026:20:55:36.250 +0000","request":"GET / HTTP/1.1"}',
      '{"accept_date":"10/Oct/2026:20:55:36.250 +0000","request":"<BADREQ>"}',
    ],
    [
      "logfmt",
      'ts="2026-10-10T20:55:36.250Z" req="GET / HTTP/1.1" status=200',
      'ts="2026-10-10T20:55:36.250Z" req="<BADREQ>" status=400',
    ],
    [
      "nginx-json",
      '{"time_local":"10/Oct/2026:20:55:36 +0000","request":"GET / HTTP/1.1","status":200}',
      '{"time_local":"10/Oct/2026:20:55:36 +0000","request":"<BADREQ>","status":400}',
    ],
  ])("of a stream that %s shares with its server are counted as no calls", (format, call, other) => {
    for (const wrap of [(line: string) => line, (line: string) => `2026-10-10T20:55:40Z stdout F ${line}`]) {
      const log = readWell([other, call, call, other, call].map(wrap));
      expect(log.facts).toMatchObject({ format, calls: 3, unreadable: 0, no_calls: 2 });
    }
  });

  test("with a field of its own before the request are calls", () => {
    const line = '10.0.0.1 [10/Oct/2026:20:55:36 +0000] "-" "GET / HTTP/1.1" 400 1';
    expect(readWell([line, line]).facts).toMatchObject({ format: "common", calls: 2, no_calls: 0 });
  });

  test("that speak of an error are calls", () => {
    const line = '{"time":"2026-10-10T20:55:36.250Z","msg":"error: invalid-request","path":"/a"}';
    expect(readWell([line, line]).facts).toMatchObject({ calls: 2, no_calls: 0 });
  });

  test("leave nothing to replay", () => {
    expect(read([])).toMatchObject({ code: "too-few-calls", lines: 0 });
    expect(read([iso(UTC_0)])).toMatchObject({ code: "too-few-calls", calls: 1 });
  });
});

describe("lines that a container runtime cut into pieces", () => {
  const agent = "x".repeat(20_000);
  const CLF_LINE = `203.0.113.9 - - [10/Oct/2026:20:55:36 +0000] "GET /?${agent} HTTP/1.1" 200 2 "-" "c" 0.123`;
  const JSON_LINE = `{"agent":"${agent}","request_time":"0.123","time_iso8601":"2026-10-10T20:55:36+00:00"}`;
  const time = "2026-10-10T20:55:40.1Z";
  const docker = (log: string): string => JSON.stringify({ log, stream: "stdout", time });
  const cri = (text: string, flag: string): string => `${time} stdout ${flag} ${text}`;
  const fluentd = (log: string, last: boolean): string =>
    JSON.stringify({ log, source: "stdout", partial_message: "true", partial_id: "1", partial_last: `${last}` });
  const journal = (MESSAGE: string, isCut: boolean): string =>
    JSON.stringify({ MESSAGE, CONTAINER_ID_FULL: "a", ...(isCut && { CONTAINER_PARTIAL_MESSAGE: "true" }) });
  const error = `${time} stderr F 2026/10/10 20:55:36 [warn] 7#7: buffered`;

  const cuts: [string, (head: string, tail: string) => string[]][] = [
    ["json-file of Docker", (head, tail) => [docker(head), docker(`${tail}\n`)]],
    ["CRI", (head, tail) => [cri(head, "P"), cri(tail, "F")]],
    ["CRI, with another stream between them", (head, tail) => [cri(head, "P"), error, cri(tail, "F")]],
    [
      "CRI, by Fluent Bit",
      (head, tail) =>
        [head, tail].map((message, k) => JSON.stringify({ time, stream: "stdout", logtag: "PF"[k], message })),
    ],
    ["Fluentd", (head, tail) => [fluentd(head, false), fluentd(tail, true)]],
    ["journald", (head, tail) => [journal(head, true), journal(tail, false)]],
  ];

  test.each(cuts)("are joined: %s", (_, cut) => {
    for (const [format, line] of [
      ["nginx-timed", CLF_LINE],
      ["nginx-json", JSON_LINE],
    ] as const) {
      const lines = cut(line.slice(0, 16_384), line.slice(16_384));
      const log = readWell([...lines, ...lines]);
      expect(log.facts).toMatchObject({ format, calls: 2, unreadable: 0 });
      expect(log.atMs[0]).toBeCloseTo(UTC_0 + 250 - 123);
    }
  });

  test("are read as far as they came", () => {
    const untimed = CLF_LINE.replace(' "c" 0.123', "");
    const log = readWell([docker(`${untimed}\n`), docker(untimed.slice(0, 16_384))]);
    expect(log.facts).toMatchObject({ format: "common", calls: 2, unreadable: 0 });
    const whole = docker("2026-10-10T20:55:36.250Z GET /");
    expect(readWell([whole, whole]).facts).toMatchObject({ calls: 2, unreadable: 0 });
  });
});

test("of lines that nothing tells apart it is said that each counts as a call", () => {
  const event = (name: string): string => `{"event":"${name}","timestamp":"2026-10-10T20:55:36.250Z"}`;
  expect(readWell([event("started"), event("finished")]).facts).toMatchObject({ calls: 2, every_line_counts: true });
  const common = '10.0.0.1 - - [10/Oct/2026:20:55:36 +0000] "GET / HTTP/1.1" 200 1';
  expect(readWell([common, common]).facts.every_line_counts).toBeUndefined();
});

test("the header of a CSV file may stand in the middle, where files were joined", () => {
  const lines = ["when,path", "2026-10-10T20:55:36Z,/", "when,path", "2026-10-10T20:55:37Z,/"];
  expect(readWell(lines, { timeField: "when" }).facts).toMatchObject({ calls: 2, unreadable: 0 });
});

test("what an origin shield answers to the edge of Azure's CDN is no call of a client", () => {
  const of = (isReceivedFromClient: unknown): string =>
    JSON.stringify({
      time: "2026-10-10T20:55:36.480Z",
      category: "AzureCdnAccessLog",
      properties: { TimeTaken: "0.230", isReceivedFromClient },
    });
  const { facts } = readWell([of(false), of(true), of("False"), of(undefined)]);
  expect(facts).toMatchObject({ format: "azure", calls: 2, no_calls: 2, unreadable: 0 });
});

test("spans and points that are no calls are counted as such", () => {
  const span = (kind: number): string => `{"kind":${kind},"startTimeUnixNano":"${UTC_0}000000"}`;
  expect(readWell([span(2), span(3), span(2)]).facts).toMatchObject({ format: "otel", calls: 2, no_calls: 1 });
  const point = (metric: string): string => `${metric},${UTC_0 / 1000},5`;
  const head = "metric_name,timestamp,metric_value";
  const k6 = readWell([head, ...["http_reqs", "http_req_duration", "data_sent", "http_req_duration"].map(point)]);
  expect(k6.facts).toMatchObject({ format: "k6", calls: 2, no_calls: 2 });
});

describe("the times of a log", () => {
  test("of whole seconds are spread over them, before what a call took is taken off", () => {
    const common = (second: number): string =>
      `10.0.0.1 - - [10/Oct/2026:20:55:${second} +0000] "GET / HTTP/1.1" 200 1 "-" "x"`;
    const plain = readWell([36, 36, 36, 36, 37].map(common));
    expect(plain.atMs.map((ms) => ms - UTC_0)).toEqual([125, 375, 625, 875, 1500]);
    const timed = readWell([36, 36, 36, 36, 37].map((second) => `${common(second)} 0.100`));
    expect(timed.atMs.map((ms) => ms - UTC_0)).toEqual([25, 275, 525, 775, 1400]);
    expect(timed.facts).toMatchObject({ format: "nginx-timed", moment: "end minus duration" });
    expect(readWell([36, 37].map((second) => `${common(second)} 0.000`)).facts.moment).toBe("end minus duration");
  });

  test("of whole seconds are spread although a few lines have a fraction, whose calls keep their moments", () => {
    const times = [...Array.from({ length: 40 }, (_, k) => 36 + Math.floor(k / 10)), 40.25];
    const lines = times.map((s) => `2026-10-10T20:55:${s}Z GET /`);
    const offsets = readWell(lines).atMs.map((ms) => ms - UTC_0);
    expect(offsets.slice(0, 3)).toEqual([50, 150, 250]);
    expect(offsets.at(-1)).toBe(4250);
    const byMs = [0, 1, 2, 3].map((ms) => UTC_0 + ms);
    expect(readWell(byMs.map((ms) => iso(ms))).atMs).toEqual(byMs);
  });

  test("that state their zone behind a blank do not jump at the end of summer time", () => {
    const lines = ["02:59:58 +0200", "02:59:59 +0200", "02:00:00 +0100", "02:00:01 +0100"];
    const { facts } = readWell(lines.map((time) => `2026-10-25 ${time} GET /`));
    expect(facts).toMatchObject({ zone: "stated", span_s: 3 });
  });

  test("may be out of order by what a call takes, without a word", () => {
    const offsets = [0, 900, 100, 2000, 1200, 58_000, 2500, 58_100, 58_200];
    const { atMs, facts } = readWell(offsets.map((ms) => iso(UTC_0 + ms)));
    expect(atMs).toEqual(offsets.map((ms) => UTC_0 + ms).sort((a, b) => a - b));
    expect(facts.clock_back).toBeUndefined();
  });

  test("that jump back are said, with the silence that comes of it", () => {
    const before = Array.from({ length: 6 }, (_, k) => iso(UTC_0 + 1000 * k + 1));
    const after = Array.from({ length: 6 }, (_, k) => iso(UTC_0 + 5000 - 578_000 + 1000 * k + 1));
    const { facts } = readWell([...before, ...after]);
    expect(facts).toMatchObject({
      clock_back: { line: 7, by_s: 578, lines: 6, overlap_s: 0 },
      longest_silence_s: 568,
      span_s: 578,
    });
  });

  test("that jump back into what was logged before are said, with how long both come at once", () => {
    const lines = Array.from({ length: 700 }, (_, k) => iso(UTC_0 + 1000 * (k < 600 ? k : k - 300)));
    expect(readWell(lines).facts.clock_back).toEqual({ line: 601, by_s: 299, lines: 100, overlap_s: 99 });
  });

  test("are in order where long streams are logged when they end", () => {
    const line = (startMs: number, tookMs: number): string =>
      `[${new Date(UTC_0 + startMs).toISOString()}] "GET / HTTP/2" 200 - 0 10 ${tookMs} 1 "-"`;
    const { facts } = readWell([line(200_000, 10), line(0, 201_000), line(1000, 200_500), line(202_000, 10)]);
    expect(facts.clock_back).toBeUndefined();
  });

  test("jump by an hour at the end of summer time where they have no zone, and do not where they have one", () => {
    const haproxy = (time: string): string => `10.0.1.2:1 [25/Oct/2026:${time}.500] f b/s 0/0/0/1/1 200 1`;
    const local = ["02:59:58", "02:59:59", "02:00:00", "02:00:01"].map(haproxy);
    expect(readWell(local).facts).toMatchObject({
      zone: "assumed UTC",
      clock_back: { line: 3, by_s: 3599, lines: 2 },
      longest_silence_s: 3597,
    });
    const common = (time: string): string => `10.0.1.2 - - [25/Oct/2026:${time}] "GET / HTTP/1.1" 200 1`;
    const stated = ["02:59:58 +0200", "02:59:59 +0200", "02:00:00 +0100", "02:00:01 +0100"].map(common);
    expect(readWell(stated).facts).toMatchObject({ zone: "stated", span_s: 3 });
    expect(readWell(stated).facts.clock_back).toBeUndefined();
  });

  test("without a zone are taken as UTC, and that is said", () => {
    const w3c = (software: string): string[] => [
      `#Software: ${software}`,
      "#Fields: date time cs-uri",
      ...[36, 37].map((s) => `2026-10-10 20:55:${s} /`),
    ];
    expect(readWell(w3c("WebLogic")).facts.zone).toBe("assumed UTC");
    expect(readWell(w3c("Apache Tomcat/10.1.0")).facts.zone).toBe("stated");
    expect(readWell(["2026-10-10 20:55:36,250 a", "2026-10-10 20:55:37 b"]).facts.zone).toBe("assumed UTC");
    expect(readWell([iso(UTC_0), iso(UTC_0 + 1)]).facts.zone).toBe("stated");
  });

  test.each([
    ["1970", 2, ["2025-01-01T00:00:00Z a", "1970-01-01T00:00:00Z b", "2025-01-01T00:00:01Z c"]],
    ["2035", 1, ["2035-01-01T00:00:00Z a", "2025-01-01T00:00:00Z b", "2025-01-01T00:00:01Z c"]],
    ["0001", 3, ["2025-01-01T00:00:00Z a", "2025-01-01T00:00:01Z b", "0001-01-01T00:00:00Z c"]],
  ])("of which one is of %s are refused, and the line is named", (_, line, lines) => {
    expect(read(lines)).toMatchObject({ code: "span-too-long", line });
  });
});

test("of a log nothing is kept but moments", () => {
  const line = '203.0.113.9 - alice [10/Oct/2026:13:55:36 -0700] "GET /v1/maps?key=svc_sk_live_x HTTP/1.1" 200';
  expect(JSON.stringify(readWell([line, line]))).not.toMatch(/203|alice|svc|maps/);
});
