/**
 * A hostile server sends our credentials back in every coding and in every field that it controls. Nothing that a command
 * prints or leaves behind may hold one of them, obey a terminal's sequence or speak to a CI.
 */
import { readdirSync, readFileSync, statSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommand } from "../cli/command.fixture.ts";
import { k6OrSkip } from "../drivers/k6/run-k6.fixture.ts";
import { ALL_CODINGS, startHostileServer } from "./hostile-server.fixture.ts";

const k6 = k6OrSkip();

const PASSWORD = "hunter22xyz";
const SECRETS: Readonly<Record<string, string>> = {
  publishable: "svc_pk_live_a9QmZ3xT7vLpK2wB",
  server: "svc_sk_live_4f9aK2mQx7LpT3vBz8Ns",
  admin: "opaque-admin-Token-77",
  cookie: "9f8e7d6c5bAA",
  password: PASSWORD,
  basic: Buffer.from(`operator:${PASSWORD}`).toString("base64"),
};

const targetOf = (url: string): object => ({
  schema: "floodgate/target@1",
  name: "hostile",
  base_url: `${url}/v1`,
  key_management_url: `${url}/v1`,
  transport: { headers: { cookie: `sid=${SECRETS.cookie}`, "x-team": `Basic ${SECRETS.basic}` } },
  permits: { load_max_rps: 200 },
  credentials: {
    publishable: { key: SECRETS.publishable, origin: "https://app.example", org: "org_a" },
    server: { key: SECRETS.server, org: "org_a" },
    admin_pro: { token: SECRETS.admin, org: "org_a" },
  },
});

const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .map((name) => join(folder, name))
    .filter((path) => statSync(path).isFile());

/** Runs the command at a hostile server; what it printed and wrote, by name, and how often the server was asked. */
const attacked = async (args: readonly string[]): Promise<{ texts: Map<string, string>; calls: number }> => {
  const server = await startHostileServer();
  const folder = await mkdtemp(join(tmpdir(), "floodgate-hostile-"));
  try {
    const target = join(folder, "target.json");
    await writeFile(target, JSON.stringify(targetOf(server.url)));
    const { out, err } = await runCommand([...args, "--target", target]);
    const texts = new Map([
      ["stdout", out],
      ["stderr", err],
    ]);
    for (const path of filesBelow(folder)) if (path !== target) texts.set(path, readFileSync(path, "utf8"));
    return { texts, calls: server.calls() };
  } finally {
    await rm(folder, { recursive: true, force: true });
    await server.close();
  }
};

const leaksIn = (texts: ReadonlyMap<string, string>): string[] =>
  [...texts].flatMap(([name, text]) =>
    Object.entries(SECRETS).flatMap(([whose, secret]) =>
      Object.entries(ALL_CODINGS)
        .filter(([, code]) => text.includes(code(secret)))
        .map(([coding]) => `${name}: ${whose} as ${coding}`),
    ),
  );

/** Phases that send most of what a rule can say of an answer. */
const RULES = ["order", "bodies", "streams", "gaps", "every-answer"];

const COMMANDS: readonly [string, string[]][] = [
  ["verify", ["verify", "--rate", "200", "--only", ...RULES]],
  [
    "load by the open-loop driver",
    ["load", "steady-mix", "--driver", "open-loop", "--rate", "100", "--duration", "3s"],
  ],
  ["load by k6", ["load", "steady-mix", "--driver", "k6", "--rate", "100", "--duration", "3s"]],
  ["doctor", ["doctor"]],
];

describe("a hostile server's echo", () => {
  test.each(COMMANDS.filter(([, args]) => k6 !== null || !args.includes("k6")))(
    "is in nothing that %s prints or writes, whatever its coding",
    async (_what, args) => {
      const folder = await mkdtemp(join(tmpdir(), "floodgate-hostile-out-"));
      const out = args[0] === "doctor" ? [] : ["--out", join(folder, "run")];
      try {
        const { texts, calls } = await attacked([...args, ...out, "--json"]);
        for (const path of filesBelow(folder)) texts.set(path.slice(folder.length), readFileSync(path, "utf8"));
        // Every field was tried with most codings.
        expect(calls).toBeGreaterThan(args[0] === "doctor" ? 3 : 60);
        expect(leaksIn(texts)).toEqual([]);
        const printed = `${texts.get("stdout")}\n${texts.get("stderr")}`;
        expect(printed).not.toMatch(/^\s*::|##vso\[/m);
        expect(printed).not.toMatch(/[^\P{Cc}\n\t]|\p{Cf}/u);
        expect(texts.get("/run/summary.md") ?? "").not.toMatch(/<img/);
        expect(texts.get("/run/report.html") ?? "").not.toMatch(/<img src=x/);
        // Eight times as many calls would not make them much longer.
        for (const [name, text] of texts)
          if (!/history|samples/.test(name)) expect(text.length, name).toBeLessThan(2e6);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
    120_000,
  );
});

const served = async (listener: RequestListener): Promise<{ url: string; server: Server }> => {
  const server = createServer((req, res) => void req.resume().on("end", () => listener(req, res)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
};

test("answers are kept only where somebody asks for them, masked and for their owner alone", async () => {
  const { url, server } = await served((req, res) => {
    if (!req.url?.includes("/sdk/")) return void res.writeHead(401).end();
    res.writeHead(200, { "content-type": "application/json" }).end(
      JSON.stringify({
        session_token: "svc_sess_live_ey.ab.cd",
        expires_in: 900,
        product: "chat",
        said: req.headers,
      }),
    );
  });
  const folder = await mkdtemp(join(tmpdir(), "floodgate-kept-"));
  try {
    const target = join(folder, "target.json");
    await writeFile(target, JSON.stringify(targetOf(url)));
    const run = (name: string, ...more: string[]) =>
      runCommand([
        "verify",
        "--rate",
        "200",
        "--only",
        "bodies",
        "--target",
        target,
        "--out",
        join(folder, name),
        ...more,
      ]);
    await run("without");
    expect(readdirSync(join(folder, "without"))).not.toContain("answers.ndjson");
    await run("with", "--keep-answers");
    const kept = join(folder, "with", "answers.ndjson");
    expect(statSync(kept).mode & 0o777).toBe(0o600);
    const text = readFileSync(kept, "utf8");
    expect(text.split("\n").length).toBeGreaterThan(1);
    expect(JSON.parse(text.split("\n")[0] ?? "")).toMatchObject({
      id: expect.any(String),
      headers: expect.any(Object),
    });
    for (const secret of Object.values(SECRETS)) expect(text).not.toContain(secret);
  } finally {
    await rm(folder, { recursive: true, force: true });
    server.closeAllConnections();
    server.close();
  }
});

describe("a server that answers without end", () => {
  test.each<[string, RequestListener]>([
    [
      "small events",
      (req, res) => {
        // What is no stream would be waited for.
        if (!req.url?.includes("/chat/")) return void res.writeHead(401).end();
        res.writeHead(200, { "content-type": "text/event-stream" });
        const go = (): void => {
          let goesOn = true;
          while (goesOn) goesOn = res.write("event: token\ndata: {}\n\n".repeat(500));
          res.once("drain", go);
        };
        go();
      },
    ],
    [
      "codes of megabytes, each another",
      (req, res) => {
        // By this it is known for the API.
        if (!/\/(?:sdk|chat)\//.test(req.url ?? "")) return void res.writeHead(401).end();
        const detail = `${req.headers["x-request-id"]}${"x".repeat(1_900_000)}`;
        res.writeHead(403, { "content-type": "application/json" }).end(JSON.stringify({ detail }));
      },
    ],
  ])(
    "does not exhaust verify: %s",
    async (_what, listener) => {
      const { url, server } = await served(listener);
      const folder = await mkdtemp(join(tmpdir(), "floodgate-endless-"));
      try {
        const target = join(folder, "target.json");
        await writeFile(target, JSON.stringify(targetOf(url)));
        const { code, err } = await runCommand(
          ["verify", "--rate", "200", "--only", ...RULES, "--target", target, "--out", join(folder, "run")],
          { env: { NODE_OPTIONS: "--max-old-space-size=512" } },
        );
        expect([1, 4], err.slice(-500)).toContain(code);
        const bytes = filesBelow(join(folder, "run")).reduce((sum, path) => sum + statSync(path).size, 0);
        expect(bytes).toBeLessThan(4e6);
      } finally {
        await rm(folder, { recursive: true, force: true });
        server.closeAllConnections();
        server.close();
      }
    },
    120_000,
  );
});
