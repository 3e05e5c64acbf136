import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect } from "node:http2";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../start-platform.fixture.ts";
import { type Deployment, MESSAGES, startDeployment } from "./api.fixture.ts";

const hasOpenssl = (() => {
  try {
    execFileSync("openssl", ["version"]);
    return true;
  } catch {
    return false;
  }
})();

describe.skipIf(!hasOpenssl)("TLS with a given certificate, HTTP/2 beside HTTP/1.1", () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-tls-"));
  let on: Deployment;
  let secret: string;
  let ca: string;

  beforeAll(async () => {
    const [certPath, keyPath] = [join(folder, "cert.pem"), join(folder, "key.pem")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"];
    const made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"];
    execFileSync("openssl", [...made, "-keyout", keyPath, "-out", certPath, ...subject], { stdio: "ignore" });
    ca = readFileSync(certPath, "utf8");
    const listenerLimits = { headTimeoutMs: 1_000, requestTimeoutMs: 1_500 };
    on = await startDeployment({ tls: { cert: ca, key: readFileSync(keyPath) }, http2: true, listenerLimits });
    secret = (await on.serverKey(await on.org())).secret;
  });
  afterAll(async () => {
    await on?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** One call on its own HTTP/2 stream. */
  const ask = (session: ReturnType<typeof connect>, method: string, path: string, body?: unknown) => {
    const stream = session.request({ ":method": method, ":path": `/v1${path}`, authorization: `Bearer ${secret}` });
    let text = "";
    const heard = new Promise<{ status: number; headers: Record<string, unknown>; text: string; code: number }>(
      (resolve) => {
        let headers: Record<string, unknown> = {};
        stream.on("response", (got) => {
          headers = got;
        });
        stream.setEncoding("utf8").on("data", (chunk) => {
          text += chunk;
        });
        stream.on("error", () => {});
        stream.on("close", () => resolve({ status: Number(headers[":status"]), headers, text, code: stream.rstCode }));
      },
    );
    stream.end(body === undefined ? undefined : JSON.stringify(body));
    return { stream, heard, soFar: () => text };
  };

  test("HTTP/1.1 over TLS answers as ever", async () => {
    expect(on.api).toMatch(/^https:/);
    const status = await new Promise((resolve, reject) => {
      const headers = { authorization: `Bearer ${secret}` };
      httpsRequest(`${on.api}/design/styles`, { ca, headers }, (answer) => resolve(answer.resume().statusCode))
        .on("error", reject)
        .end();
    });
    expect(status).toBe(200);
  });

  test("HTTP/2: answers, refusals, 404, 405 and streams on one connection", async () => {
    const session = connect(new URL(on.api).origin, { ca });
    const [styles, stream, missing, wrong, malformed] = await Promise.all([
      ask(session, "GET", "/design/styles").heard,
      ask(session, "POST", "/chat/control/stream", MESSAGES).heard,
      ask(session, "GET", "/nothing").heard,
      ask(session, "DELETE", "/design/styles").heard,
      ask(session, "POST", "/chat/control/stream", {}).heard,
    ]);
    expect([styles.status, JSON.parse(styles.text).styles.length > 0]).toEqual([200, true]);
    expect([stream.status, stream.headers["content-type"]]).toEqual([200, "text/event-stream"]);
    expect(stream.text).toContain("event: done");
    expect([missing.status, wrong.status, wrong.headers.allow]).toEqual([404, 405, "GET, HEAD, OPTIONS"]);
    expect(malformed.status).toBe(422);
    session.close();
  });

  test("a client that cancels its stream gives its slot back and disturbs no other", async () => {
    const session = connect(new URL(on.api).origin, { ca });
    const [left, stays] = [
      ask(session, "POST", "/chat/control/stream", MESSAGES),
      ask(session, "POST", "/chat/button/stream", {}),
    ];
    await until("an event", () => left.soFar().includes("event:"));
    left.stream.close(8);
    expect((await stays.heard).text).toContain("event: end");
    await on.quiet();
    session.close();
  });

  test("a body that trickles ends its own stream, and its slot comes back", async () => {
    const session = connect(new URL(on.api).origin, { ca });
    const headers = { ":method": "POST", ":path": "/v1/chat/control/stream", authorization: `Bearer ${secret}` };
    const stream = session.request(headers);
    let code: number | undefined;
    stream
      .on("error", () => {})
      .on("close", () => {
        code = stream.rstCode;
      });
    stream.write('{"messages":');
    await until("the call to be in flight", async () => (await on.gauges()).in_flight === 1);
    await until("the stream to be closed", () => code !== undefined);
    expect(code).toBe(8);
    expect((await ask(session, "GET", "/design/styles").heard).status).toBe(200);
    await on.quiet();
    session.close();
  });

  test("a head of more than 16 KiB gets no answer but the end of its stream", async () => {
    const session = connect(new URL(on.api).origin, { ca });
    const of = (bytes: number) =>
      new Promise<number | "closed">((resolve) => {
        const stream = session.request({ ":path": "/v1/nothing", "x-long": "x".repeat(bytes) });
        stream.on("response", (headers) => resolve(Number(headers[":status"])));
        stream.on("error", () => {}).on("close", () => resolve("closed"));
        stream.resume();
      });
    expect(await of(15_000)).toBe(404);
    expect(await of(17_000)).toBe("closed");
    session.destroy();
  });

  test("a connection that says nothing is closed, before and after the handshake", async () => {
    const silent = await on.raw();
    await silent.closed();
  });

  test("an ordered reset ends its own stream only", async () => {
    const session = connect(new URL(on.api).origin, { ca });
    await on.ask("PATCH", "/deployment", {
      fail_next: { route: "chat.summary", mode: "reset", after_events: 1, count: 1 },
    });
    const [cut, stays] = [
      ask(session, "POST", "/chat/summary/stream", { type: "poi" }),
      ask(session, "POST", "/chat/button/stream", {}),
    ];
    expect((await cut.heard).code).toBe(2);
    expect((await stays.heard).text).toContain("event: end");
    await on.quiet();
    session.close();
  });
});
