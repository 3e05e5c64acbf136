import { EventEmitter } from "node:events";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { putDoorBefore } from "./front-door.ts";

const RESPONSE = {} as ServerResponse;

const SOUND = { httpVersion: "1.1", headers: { host: "x" }, rawHeaders: ["Host", "x"], socket: {} };

/** Who was asked for each request, in order. */
const asked = (requests: readonly [method: string, url: string][]): string[] => {
  const heard: string[] = [];
  const listener = new EventEmitter();
  listener.on("request", () => heard.push("router"));
  putDoorBefore(
    listener as unknown as Server,
    (name) => {
      if (name === "design.apply") return null;
      return () => {
        if (name === "chat.route") throw new Error("broken");
        heard.push(name);
      };
    },
    (error) => heard.push((error as Error).message),
  );
  for (const [method, url] of requests)
    listener.emit("request", { ...SOUND, method, url } as IncomingMessage, RESPONSE);
  return heard;
};

describe("the front door", () => {
  test("a call on a fixed path begins there, by its method", () => {
    expect(
      asked([
        ["GET", "/v1/design/styles"],
        ["HEAD", "/v1/design/styles"],
        ["POST", "/v1/sdk/sessions"],
      ]),
    ).toEqual(["design.styles", "design.styles", "sdk.sessions"]);
  });

  test.each([
    ["GET", "/v1/design/styles?x=1"],
    ["GET", "/v1/design/styles/"],
    ["GET", "/v1/design/st%79les"],
    ["GET", "http://host/v1/design/styles"],
    ["GET", "/v1/maps/tiles/1/0/0"],
    ["GET", "/v1/maps/tiles/{z}/{x}/{y}"],
    ["GET", "/v1/sdk/sessions"],
    ["OPTIONS", "/v1/design/styles"],
    ["POST", "/v1/design/apply-direct"],
    ["GET", "/v1/__proto__"],
    ["constructor", "/v1/design/styles"],
  ])("%s %s is left to the router", (method, url) => {
    expect(asked([[method, url]])).toEqual(["router"]);
  });

  test("a beginning that throws is answered for, and the next request is served", () => {
    expect(
      asked([
        ["POST", "/v1/chat/control/route"],
        ["GET", "/v1/design/themes"],
      ]),
    ).toEqual(["broken", "design.themes"]);
  });

  test("nobody else may listen already: it would hear each call twice", () => {
    const listener = new EventEmitter().on("request", () => {}).on("request", () => {});
    expect(() =>
      putDoorBefore(
        listener as unknown as Server,
        () => null,
        () => {},
      ),
    ).toThrow("got 2");
  });
});
