/** Every command looks at its deployment once before anything is started, and says what doctor would. */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createSecureServer } from "node:http2";
import { createServer as createHttps, type ServerOptions } from "node:https";
import { connect, createServer as createTcp } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runCommand } from "../cli/command.fixture.ts";
import { makeCertificates } from "../client/certificates.fixture.ts";
import { openListeners } from "../client/listeners.fixture.ts";
import { networkAdvice } from "../client/network-errors.ts";
import type { RunDocument } from "../history/run-document.ts";
import { createSecrets } from "../target/secrets.ts";
import type { Target, Transport } from "../target/target.ts";
import { probeAddress } from "../verify/doctor/find-base-url.ts";
import { EXIT, exitCodeOf } from "./exit-codes.ts";
import { lookFirst } from "./recorded-run.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-look-"));
const made = makeCertificates(folder);
const { listen, closedPort, close } = openListeners();
let requests = 0;
const answer = (_: unknown, res: { end(text: string): void }): void => {
  requests += 1;
  res.end("{}");
};
const https = (options: ServerOptions): Promise<number> => listen(createHttps(options, answer));
afterAll(() => {
  close();
  rmSync(folder, { recursive: true, force: true });
});

const lookAt = (base_url: string, transport: Transport = {}) => {
  const target: Target = { schema: "floodgate/target@1", base_url, transport };
  return lookFirst({ target, secrets: createSecrets(folder) }).then(
    () => ({ code: 0, said: "" }),
    (error: Error) => ({ code: exitCodeOf(error), said: error.message }),
  );
};
const CA: Transport = { ca: "file:ca.pem" };

describe("one look before anything is started", () => {
  test("lets a deployment through that answers, plain or by TLS, and sends it no request", async () => {
    const plain = await listen(createHttp(answer));
    expect(await lookAt(`http://127.0.0.1:${plain}/v1`)).toEqual({ code: 0, said: "" });
    expect(await lookAt(`http://localhost:${plain}/v1`)).toEqual({ code: 0, said: "" });
    if (made !== null) {
      const port = await https(made.good);
      expect(await lookAt(`https://127.0.0.1:${port}/v1`, CA)).toEqual({ code: 0, said: "" });
      expect(await lookAt(`https://localhost:${port}/v1`, CA)).toEqual({ code: 0, said: "" });
    }
    expect(requests).toBe(0);
  });

  test.skipIf(made === null)(
    "lets a port through that takes TLS and plain HTTP alike, as some proxies do",
    async () => {
      if (made === null) return;
      const [tls, plain] = [await https(made.good), await listen(createHttp(answer))];
      const either = createTcp((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", (first) => {
          // A TLS handshake begins with the record type 22.
          const to = connect(first[0] === 22 ? tls : plain, "127.0.0.1").on("error", () => socket.destroy());
          to.write(first);
          socket.pipe(to).pipe(socket);
        });
      });
      expect(await lookAt(`http://127.0.0.1:${await listen(either)}/v1`)).toEqual({ code: 0, said: "" });
      expect(await lookAt(`http://127.0.0.1:${tls}/v1`)).toMatchObject({ said: expect.stringMatching(/tls_expected/) });
    },
  );

  test("does not take a plain server that waits for more, or hangs up, for one that is not there", async () => {
    const silent = await listen(createTcp((socket) => void socket.on("error", () => undefined).resume()));
    const rude = await listen(createTcp((socket) => void socket.on("data", () => socket.destroy())));
    expect(await lookAt(`http://127.0.0.1:${silent}/v1`)).toEqual({ code: 0, said: "" });
    expect(await lookAt(`http://127.0.0.1:${rude}/v1`)).toEqual({ code: 0, said: "" });
  });

  test("names a port where nobody listens, a host that nobody knows, and a proxy that is not there: 3", async () => {
    const port = await closedPort();
    expect(await lookAt(`http://127.0.0.1:${port}/v1`)).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(
        /does not answer \(ECONNREFUSED\): nothing listens at that address; start the deployment/,
      ),
    });
    expect(await lookAt(`https://127.0.0.1:${port}/v1`)).toMatchObject({ code: EXIT.unreachable });
    expect(await lookAt("http://no-such-host.invalid/v1")).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(/the host name cannot be resolved; correct the host in base_url/),
    });
    expect(await lookAt("http://127.0.0.1:1/v1", { proxy: `http://127.0.0.1:${port}` })).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(
        /^the proxy of transport.proxy does not answer \(ECONNREFUSED\): .*; start the proxy, or correct its address/,
      ),
    });
  });

  test
    .skipIf(made === null)
    .each<
      [what: string, identity: "expired" | "otherName" | "selfSigned" | "good", transport: Transport, said: RegExp]
    >([
      [
        "has expired",
        "expired",
        CA,
        /not trusted \(CERT_HAS_EXPIRED\): its certificate has expired; have the certificate renewed/,
      ],
      [
        "is of another name",
        "otherName",
        CA,
        /not trusted \(ERR_TLS_CERT_ALTNAME_INVALID\): its certificate is for another host name/,
      ],
      ["nobody signed", "selfSigned", CA, /not trusted \(DEPTH_ZERO_SELF_SIGNED_CERT\).*name the authority/],
      [
        "an unknown authority signed",
        "good",
        {},
        /not trusted \(UNABLE_TO_VERIFY_LEAF_SIGNATURE\).*name the authority/,
      ],
    ])("names a certificate that %s: 3", async (_what, identity, transport, said) => {
    const port = await https(made![identity]);
    const found = await lookAt(`https://127.0.0.1:${port}/v1`, transport);
    expect(found).toEqual({ code: EXIT.unreachable, said: expect.stringMatching(said) });
  });

  test.skipIf(made === null)("names plain HTTP spoken to a TLS port, and the reverse: 3", async () => {
    const tls = await https(made!.good);
    expect(await lookAt(`http://127.0.0.1:${tls}/v1`)).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(/it speaks TLS, but the file says http:\/\/; write https:\/\//),
    });
    const plain = await listen(createHttp(answer));
    expect(await lookAt(`https://127.0.0.1:${plain}/v1`, CA)).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(/speaks another protocol.*is it https:\/\/ where the file says http:\/\//),
    });
  });

  test.skipIf(made === null).each(["TLSv1.2", "TLSv1.3"] as const)(
    "names a server that asks for a certificate of ours, and passes with one (%s)",
    async (version) => {
      const { good, ca } = made!;
      const asks = {
        ...good,
        ca,
        requestCert: true,
        rejectUnauthorized: true,
        minVersion: version,
        maxVersion: version,
      };
      const port = await https(asks);
      const without = await lookAt(`https://127.0.0.1:${port}/v1`, CA);
      expect(without).toEqual({
        code: EXIT.unreachable,
        said: expect.stringMatching(/refuses our side of the TLS handshake.*"transport": \{ "cert"/),
      });
      const withOurs = { ...CA, cert: "file:good.pem", key: "file:good.key" };
      expect(await lookAt(`https://127.0.0.1:${port}/v1`, withOurs)).toEqual({ code: 0, said: "" });
    },
  );

  test.skipIf(made === null)(
    "names a server of HTTP/2 alone where HTTP/1.1 is asked for, and passes by h2",
    async () => {
      const port = await listen(createSecureServer(made!.good));
      expect(await lookAt(`https://127.0.0.1:${port}/v1`, CA)).toEqual({
        code: EXIT.unreachable,
        said: expect.stringMatching(/it speaks HTTP\/2 alone.*; write "transport": \{ "protocol": "h2" \}/),
      });
      expect(await lookAt(`https://127.0.0.1:${port}/v1`, { ...CA, protocol: "h2" })).toEqual({ code: 0, said: "" });
      const both = await listen(createSecureServer({ ...made!.good, allowHTTP1: true }));
      expect(await lookAt(`https://127.0.0.1:${both}/v1`, CA)).toEqual({ code: 0, said: "" });
    },
  );

  test.skipIf(made === null)("names a server of an older TLS alone, and passes one of TLS 1.2", async () => {
    const of = (version: "TLSv1.1" | "TLSv1.2") =>
      https({ ...made!.good, minVersion: version, maxVersion: version, ciphers: "DEFAULT@SECLEVEL=0" });
    const old = `https://127.0.0.1:${await of("TLSv1.1")}/v1`;
    expect(await lookAt(old, CA)).toEqual({
      code: EXIT.unreachable,
      said: expect.stringMatching(/an older TLS alone.*turn TLS 1\.2 or 1\.3 on/),
    });
    expect((await probeAddress(old, CA, folder, "stated")).findings[0]?.todo).toMatch(/turn TLS 1\.2 or 1\.3 on/);
    expect(await lookAt(`https://127.0.0.1:${await of("TLSv1.2")}/v1`, CA)).toEqual({ code: 0, said: "" });
    // What speaks no TLS may be meant by http://.
    const plain = `https://127.0.0.1:${await listen(createHttp(answer))}/v1`;
    expect((await probeAddress(plain, CA, folder, "stated")).findings[0]?.todo).toContain("http://");
  });

  test.skipIf(made === null)("init says of a page with status 400 over TLS what a gateway may want", async () => {
    const page = createHttps(made!.good, (_, res) => res.writeHead(400, { "content-type": "text/html" }).end("<p>"));
    const url = `https://127.0.0.1:${await listen(page)}/v1`;
    const todoWith = async (more: Transport) =>
      (await probeAddress(url, { ...CA, ...more }, folder, "stated")).findings[0]?.todo;
    expect(await todoWith({})).toMatch(/want a client certificate/);
    expect(await todoWith({ cert: "file:good.pem", key: "file:good.key" })).not.toMatch(/certificate/);
  });

  test("names a gateway that serves no host of that name, and a chain that lacks its middle", () => {
    expect(networkAdvice("ERR_SSL_TLSV1_UNRECOGNIZED_NAME").means).toBe(
      "it has no server of the host name in base_url",
    );
    expect(networkAdvice("UNABLE_TO_VERIFY_LEAF_SIGNATURE").todo).toMatch(/let the server send its whole chain/);
  });

  test("says of a network that lets nobody out that the environment's proxy is not used by itself", () => {
    const names = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
    const were = names.map((name) => [name, process.env[name]] as const);
    for (const name of names) delete process.env[name];
    try {
      expect(networkAdvice("ENOTFOUND").todo).toBe("correct the host in base_url");
      process.env.HTTP_PROXY = "http://proxy.test:3128";
      for (const code of ["ENOTFOUND", "EHOSTUNREACH", "UND_ERR_CONNECT_TIMEOUT"])
        expect(networkAdvice(code).todo).toMatch(/; HTTP_PROXY names a proxy.*"proxy": "env:HTTP_PROXY"/);
      expect(networkAdvice("ECONNREFUSED").todo).not.toMatch(/proxy/i);
    } finally {
      delete process.env.HTTP_PROXY;
      for (const [name, was] of were) if (was !== undefined) process.env[name] = was;
    }
  });

  test.skipIf(made === null).each<[what: string, transport: Transport, said: RegExp]>([
    [
      "an authority that is not there",
      { ca: "file:nowhere.pem" },
      /transport.ca: expected a readable file .*there is no such file/,
    ],
    ["an authority that is a folder", { ca: "file:." }, /transport.ca: expected a readable file .*it is a folder/],
    ["an authority that is none", { ca: "file:ca.cnf" }, /transport.ca: expected a certificate in PEM/],
    [
      "a key that is none",
      { ...CA, cert: "file:good.pem", key: "file:good.pem" },
      /transport.key: expected a private key/,
    ],
    [
      "a key of another certificate",
      { ...CA, cert: "file:good.pem", key: "file:own.key" },
      /private key of the certificate/,
    ],
    ["a certificate without its key", { ...CA, cert: "file:good.pem" }, /belong together/],
    [
      "a header whose variable is not set",
      { headers: { "x-a": "env:FLOODGATE_NO_SUCH" } },
      /transport.headers.x-a: expected/,
    ],
  ])("names %s: 2, without a connection", async (_what, transport, said) => {
    expect(await lookAt("https://127.0.0.1:1/v1", transport)).toEqual({
      code: EXIT.usage,
      said: expect.stringMatching(said),
    });
  });
});

describe.concurrent("every command", () => {
  const COMMANDS = {
    load: ["load", "smoke", "--driver", "k6"],
    run: ["run", "smoke"],
    chaos: ["chaos", "limiter-refused"],
    verify: ["verify"],
    capacity: ["capacity", "--slo", "errors<=1%", "--scenario", "catalog-reads"],
    gate: ["gate", "--scenario", "catalog-reads"],
  };
  const cases = Object.entries(COMMANDS).flatMap(([name, words]) => [
    [name, words, "refused", {}, 3, /does not answer \(ECONNREFUSED\): nothing listens/] as const,
    [name, words, "no authority", { ca: "file:nowhere.pem" }, 2, /transport.ca: expected a readable file/] as const,
  ]);

  test.each(cases)("%s ends at once where %s %s", async (name, words, how, transport, code, said) => {
    const place = join(folder, `${name}-${how.replace(" ", "-")}`);
    const file = `${place}.json`;
    const target = {
      schema: "floodgate/target@1",
      base_url: `http${how === "refused" ? "" : "s"}://127.0.0.1:${await closedPort()}/v1`,
      transport,
      credentials: { server: { key: "svc_sk_live_0123456789abcdef" } },
      permits: { chaos: true, load_max_rps: 5 },
    };
    writeFileSync(file, JSON.stringify(target));
    // The second of a gate is another deployment by its address.
    writeFileSync(`${place}-b.json`, JSON.stringify({ ...target, base_url: target.base_url.replace("/v1", "/b/v1") }));
    const which = name === "gate" ? ["--base", file, "--head", `${place}-b.json`] : ["--target", file];
    const out = mkdtempSync(`${place}-run-`);
    const ended = await runCommand([...words, ...which, "--out", out]);
    // The end of a run is broken into lines of a terminal.
    expect([ended.code, ended.err.replaceAll(/\s+/g, " ")]).toEqual([code, expect.stringMatching(said)]);
    expect(ended.err).not.toMatch(/calibration|building/i);
    const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
    expect([document.verdict, document.exit_code, document.stages]).toEqual(["inconclusive", code, []]);
    expect([document.target.base_url, document.target.embedded]).toEqual([target.base_url, false]);
    expect(existsSync(join(out, "report.html"))).toBe(true);
  });
});
