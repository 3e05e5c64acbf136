/**
 * The other end of a calibration: a server whose delays are known because it makes them, in a process of its own, so that
 * what it does takes no time from who is measured. It answers the routes of the contract, stamps each call by itself, stands
 * still once, and ends when its stdin does.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { wallUs } from "../../client/clock.ts";
import { ROUTE_NAMES, type RouteName, routeOf, type Stream } from "../../contract/routes.ts";
import { VOCABULARIES, writeEvent } from "../../contract/streams.ts";
import { startNullServer } from "../../drivers/open-loop/null-server.ts";
import type { Stamp, StampKind } from "../../history/calibration-play.ts";
import type { FromStub, StubPhases, ToStub } from "./stub-messages.ts";

const DELAY_MS = 20;
const EVENTS = 4;
const EVENT_EVERY_MS = 15;
/** One in three of the plain routes is delayed. */
const DELAYED = new Set<RouteName>(["poi.enrich", "design.themes"]);

const routeByPath = new Map(ROUTE_NAMES.map((name) => [routeOf(name).path, name]));

const say = (message: FromStub): void => void process.stdout.write(`${JSON.stringify(message)}\n`);

let phases: StubPhases | null = null;
/** When the schedule began, by the first call that came. */
let startUs: number | null = null;
let stamps: Stamp[] = [];
let stoodStillUs = 0;

const standStill = (): void => {
  const fromUs = wallUs();
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, (phases?.stallUs ?? 0) / 1000);
  stoodStillUs += wallUs() - fromUs;
};

const begin = (receivedUs: number): void => {
  if (phases === null || startUs !== null) return;
  startUs = receivedUs - phases.firstUs;
  setTimeout(standStill, Math.max(0, (startUs + phases.stallFromUs - wallUs()) / 1000));
};

const isOver = (nowUs: number): boolean => phases !== null && startUs !== null && nowUs >= startUs + phases.nullFromUs;

const plain = (res: ServerResponse, stamp: Stamp): void => {
  stamp.answered_us = wallUs();
  stamp.last_us = stamp.answered_us;
  res.setHeader("content-type", "application/json");
  res.end('{"ok":true}');
};

const stream = (kind: Stream, res: ServerResponse, stamp: Stamp, events: number): void => {
  const { content, done } = VOCABULARIES[kind];
  res.writeHead(200, { "content-type": "text/event-stream" });
  let written = 0;
  const next = (): void => {
    written += 1;
    stamp.last_us = wallUs();
    if (written === 1) stamp.answered_us = stamp.last_us;
    if (written >= events) {
      res.end(writeEvent(done, {}));
      return;
    }
    res.write(writeEvent(content[0] as string, { text: "a" }));
    setTimeout(next, EVENT_EVERY_MS);
  };
  next();
};

const kindOf = (route: RouteName | undefined): StampKind =>
  route === undefined
    ? "at once"
    : routeOf(route).stream !== undefined
      ? "stream"
      : DELAYED.has(route)
        ? "delayed"
        : "at once";

const answer = (req: IncomingMessage, res: ServerResponse): void => {
  const receivedUs = wallUs();
  begin(receivedUs);
  const path = (req.url ?? "").replace(/\?.*$/, "").replace(/^\/v1/, "");
  const route = routeByPath.get(path);
  const isNull = isOver(receivedUs);
  const kind = kindOf(route);
  const stamp: Stamp = {
    id: String(req.headers["x-request-id"] ?? ""),
    kind: isNull ? "at once" : kind,
    received_us: receivedUs,
    answered_us: receivedUs,
    last_us: receivedUs,
  };
  stamps.push(stamp);
  // A body that nobody reads would keep the connection from its next call.
  req.resume();
  const events = route === undefined ? undefined : routeOf(route).stream;
  if (events !== undefined) stream(events, res, stamp, isNull ? 1 : EVENTS);
  else if (kind === "delayed" && !isNull) setTimeout(() => plain(res, stamp), DELAY_MS);
  else plain(res, stamp);
};

const server = createServer(answer);
// Longer than a calibration: a connection that is closed while idle would look like a lost call.
server.keepAliveTimeout = 60_000;
const nullServer = await startNullServer(wallUs);
server.listen(0, "127.0.0.1", 1024, () =>
  say({ type: "listening", port: (server.address() as AddressInfo).port, nullPort: nullServer.port }),
);

const input = createInterface({ input: process.stdin });
input.on("line", (line) => {
  const message = JSON.parse(line) as ToStub;
  if (message.type === "phases") {
    ({ phases } = message);
    startUs = null;
    stamps = [];
    stoodStillUs = 0;
    say({ type: "ready" });
  } else if (message.type === "look") say({ type: "seen", ...nullServer.look() });
  else say({ type: "report", stamps, stoodStillUs });
});
input.on("close", () => process.exit(0));
