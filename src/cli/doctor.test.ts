/** `init` and `doctor` as a user types them, against a stub on a real socket. */
import { existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { type StubApi, startStubApi } from "../client/stub-api.fixture.ts";
import { pause } from "../supervision/waiting.ts";
import { checkTarget } from "../target/target-file.ts";
import { runCommand, startCommand, startCommandsInTurn } from "./command.fixture.ts";
import { findingsText } from "./doctor.ts";

const SERVER_KEY = "svc_sk_live_0123456789abcdefghij";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-doctor-cli-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

let stub: StubApi;
beforeAll(async () => {
  stub = await startStubApi();
  // The API as strangers meet it: whoever has no key gets 401 from its routes.
  stub.instead = ({ path, headers }, res) => {
    if (!path.startsWith("/v1/")) {
      res.writeHead(404, { "content-type": "application/json" }).end('{"detail":"Not Found"}');
      return true;
    }
    const isRoute = /^\/v1\/(design|maps|sdk|shared-api)\//.test(path);
    if (!isRoute || headers.authorization?.includes(SERVER_KEY) === true) return false;
    res.writeHead(401, { "content-type": "application/json" }).end("{}");
    return true;
  };
});
afterAll(() => stub.close());

const tools: Record<string, string> = {};
const toolFolder = mkdtempSync(join(tmpdir(), "floodgate-doctor-tools-"));
beforeAll(() => {
  const prints = { K6: "k6 v2.2.0 (go1.26.8)\n  k6/x/floodgate v0.1.0", TOXIPROXY: "toxiproxy-server version 2.12.0" };
  for (const [name, text] of Object.entries(prints)) {
    const path = join(toolFolder, name);
    writeFileSync(path, `#!/bin/sh\nprintf '%s\\n' '${text}'\n`, { mode: 0o755 });
    tools[`FLOODGATE_${name}`] = path;
  }
});
afterAll(() => rmSync(toolFolder, { recursive: true }));

const commands = startCommandsInTurn();
afterAll(commands.kill);

/** Tools are looked for by tools-here.test.ts; here they are always there, built or not. */
const where = (env: Record<string, string>) => ({
  env: { FLOODGATE_SERVER_KEY: "", FLOODGATE_PUBLISHABLE_KEY: "", ...tools, ...env },
  cwd: folder,
});
const run = (args: string[], env: Record<string, string> = {}) => commands.run(args, where(env));
const runAlone = (args: string[], env: Record<string, string> = {}) => runCommand(args, where(env));

const tooLong = (text: string): string[] =>
  text.split("\n").filter((line) => line.length > 80 && /\s\S+\s/.test(line.trim()));

describe("from an address to a checked target file", () => {
  test("with one exported key: init, then doctor, without a word edited", async () => {
    const env = { FLOODGATE_SERVER_KEY: SERVER_KEY };
    const made = await runAlone(["init", "--target", stub.url.replace(/\/v1$/, ""), "--out", "t.json"], env);
    expect([made.code, made.err]).toEqual([0, ""]);
    expect(made.out).toContain(`${stub.url} answers as the API does`);
    expect(made.out).toContain("npx floodgate doctor --target t.json");
    expect(made.out).not.toContain("export ");
    const file = join(folder, "t.json");
    expect(statSync(file).mode & 0o777).toBe(0o600);
    const { target, warnings } = checkTarget(JSON.parse(readFileSync(file, "utf8")), file);
    expect(warnings).toEqual([]);
    expect(target).toMatchObject({
      base_url: stub.url,
      tile_url: `${stub.url}/maps/tiles/{z}/{x}/{y}`,
      stream_end: { control: "done", summary: "summary_done", button: "end" },
      permits: { writes: false, quota_burn: false, chaos: false },
    });
    expect(target.credentials).toEqual({ server: { key: "env:FLOODGATE_SERVER_KEY" } });

    const seen = await runAlone(["doctor", "--target", "t.json"], env);
    expect([seen.code, seen.err]).toEqual([0, ""]);
    expect(seen.out).toMatch(/ {2}ok {7}server: reads the style catalog/);
    expect(seen.out).toContain("Next: npx floodgate verify --target t.json");
    for (const { out } of [made, seen]) {
      expect(out).not.toContain("0123456789abcdef");
      expect(tooLong(out)).toEqual([]);
    }
  });

  test("with no exported key both roles are proposed, and doctor names what is not set", async () => {
    const made = await run(["init", "--target", stub.url, "--origin", "https://app.example"]);
    expect(made.out).toContain("export FLOODGATE_SERVER_KEY=");
    const { credentials } = JSON.parse(readFileSync(join(folder, "target.json"), "utf8"));
    expect(credentials.publishable).toEqual({ key: "env:FLOODGATE_PUBLISHABLE_KEY", origin: "https://app.example" });
    const seen = await run(["doctor", "--target", "target.json", "--json"]);
    expect(seen.code).toBe(2);
    const document = JSON.parse(seen.out);
    expect(document).toMatchObject({ schema: "floodgate/doctor@1", exit_code: 2, refused_by_guard: [] });
    expect(seen.out).toContain("FLOODGATE_PUBLISHABLE_KEY, but it is not set");
    // Runs say so as well, and before their calibration.
    for (const command of [
      ["run", "smoke"],
      ["load", "steady-mix"],
    ]) {
      const { code, err } = await run([...command, "--target", "target.json", "--out", `unset-${command[0]}`]);
      expect([code, err]).toEqual([2, expect.stringContaining("_KEY, but it is not set")]);
      expect(err).not.toContain("calibration");
    }
  });

  test("a key that the deployment refuses is said by init, which keeps the file", async () => {
    const env = { FLOODGATE_SERVER_KEY: "svc_sk_live_nobody_issued_this_one" };
    const made = await run(["init", "--target", stub.url, "--out", "refused.json"], env);
    expect(made.code).toBe(2);
    expect(made.out).toMatch(/ {2}wrong {4}server: .*401/);
    expect(existsSync(join(folder, "refused.json"))).toBe(true);
  });

  test("a key that the file holds stands in no output, also where it is wrong", async () => {
    const secret = "a-key-of-no-known-shape-7261";
    const target = { schema: "floodgate/target@1", base_url: stub.url, credentials: { server: { key: secret } } };
    writeFileSync(join(folder, "t.json"), JSON.stringify(target));
    for (const more of [[], ["--json"]]) {
      const { code, out, err } = await run(["doctor", "--target", "t.json", ...more]);
      expect([code, (out + err).includes(secret)]).toEqual([2, false]);
      expect(out).toContain("server");
    }
  });

  test("--find-limits refuses what it could not do, before anything is sent", async () => {
    const target = { schema: "floodgate/target@1", base_url: stub.url, credentials: { server: { key: SERVER_KEY } } };
    const write = (name: string, more: object) =>
      writeFileSync(join(folder, name), JSON.stringify({ ...target, ...more }));
    write("t.json", {});
    write("p.json", { permits: { load_max_rps: 100 } });
    write("p.limits.json", {});
    const before = stub.asked.length;
    const args: [string[], RegExp][] = [
      [["--target", "t.json"], /add "permits": \{ "load_max_rps": 500 \}/],
      [["--target", "p.json"], /p\.limits\.json is there already and is not overwritten/],
      [["--target", "p.json", "--out", "t.json"], /t\.json is there already/],
      [[], /name its file with --target/],
    ];
    for (const [more, words] of args) {
      const { code, err } = await run(["doctor", "--find-limits", ...more]);
      expect([code, err]).toEqual([2, expect.stringMatching(words)]);
    }
    expect(stub.asked.length).toBe(before);
  });

  test("--find-limits and what is asked before it keep to one budget", async () => {
    const credentials = { server: { key: SERVER_KEY } };
    const more = { permits: { load_max_rps: 400 }, budget: { requests: 250 } };
    const target = { schema: "floodgate/target@1", base_url: stub.url, credentials, ...more };
    writeFileSync(join(folder, "b.json"), JSON.stringify(target));
    const before = stub.asked.length;
    const { out } = await run(["doctor", "--find-limits", "--target", "b.json"]);
    expect([stub.asked.length - before, out]).toEqual([250, expect.stringContaining("budget.requests")]);
  });

  test("a search for limits that is signalled twice ends at once, with the code of its signal", async () => {
    const credentials = { server: { key: SERVER_KEY } };
    const target = { schema: "floodgate/target@1", base_url: stub.url, credentials, permits: { load_max_rps: 100 } };
    writeFileSync(join(folder, "t.json"), JSON.stringify(target));
    const options = { env: { ...tools }, cwd: folder };
    const { child, said, exited } = startCommand(["doctor", "--find-limits", "--target", "t.json"], options);
    await vi.waitUntil(() => said().includes("limits: streams alone"), { timeout: 60_000 });
    const { streamMs } = stub;
    onTestFinished(() => {
      stub.streamMs = streamMs;
      child.kill("SIGKILL");
    });
    // A stream that is under way keeps the first signal from ending the command.
    stub.streamMs = 10_000;
    await pause(500);
    child.kill("SIGTERM");
    await pause(200);
    expect(child.exitCode).toBeNull();
    child.kill("SIGTERM");
    expect(await exited).toBe(143);
  });

  test("without a target it looks at the machine; a tool that is not there is exit code 3", async () => {
    const whole = await run(["doctor"]);
    expect([whole.code, whole.out]).toEqual([0, expect.stringContaining("Nothing that a run needs is missing.")]);
    const { code, out } = await run(["doctor"], { FLOODGATE_K6: "/no/such/k6" });
    expect([code, out]).toEqual([3, expect.stringMatching(/missing {2}k6: FLOODGATE_K6 names \/no\/such\/k6/)]);
  });

  test("a calibration plays known truths to the drivers, and its exit code says whether they hold", async () => {
    const { code, out } = await runAlone(["doctor", "--calibrate", "--json"]);
    const { calibration, exit_code } = JSON.parse(out) as {
      calibration: { name: string; verdict: string }[];
      exit_code: number;
    };
    const whole = calibration.find(({ name }) => name === "open-loop: calls, one to one");
    expect(whole?.verdict).toBe("pass");
    // On a machine that is busy they may well not hold.
    const isHeld = calibration.every(({ verdict }) => verdict === "pass");
    expect([code, exit_code]).toEqual(isHeld ? [0, 0] : [4, 4]);
  });

  test("a file that is there is not overwritten", async () => {
    writeFileSync(join(folder, "target.json"), "mine");
    const { code, err } = await run(["init", "--target", stub.url]);
    expect([code, err]).toEqual([2, expect.stringContaining("is not overwritten")]);
    expect(readFileSync(join(folder, "target.json"), "utf8")).toBe("mine");
  });

  test.each([
    ["none/t.json", /there is no such place/],
    ["/proc/t.json", /--out \/proc\/t.json: expected/],
    [`${"x".repeat(300)}.json`, /ENAMETOOLONG/],
  ])("a place where no file can be is told before anything is sent: %s", async (out, words) => {
    stub.asked.length = 0;
    const { code, err } = await run(["init", "--target", stub.url, "--out", out], { FLOODGATE_SERVER_KEY: SERVER_KEY });
    expect([code, err, stub.asked.length]).toEqual([2, expect.stringMatching(words), 0]);
  });

  test("a TMPDIR that is not there is wrong, as it is for a run", async () => {
    const { code, out } = await runAlone(["doctor"], { TMPDIR: "/no/such/place" });
    expect(code).toBe(2);
    expect(out).toContain("  wrong    disk: TMPDIR /no/such/place: there is no such place (ENOENT)");
    expect(out).toContain("No run can begin here");
    expect(out).not.toContain("free at /no/such/place");
  });

  test("plain http beyond loopback is written down where it was asked for by name", async () => {
    const made = await run(["init", "--target", "HTTP://Maps.Example/v1", "--plain-http"]);
    expect(made.code).toBe(0);
    expect(JSON.parse(readFileSync(join(folder, "target.json"), "utf8")).base_url).toBe("http://maps.example/v1");
  });

  test("a scheme that was typed is kept: with https:// nothing is asked in clear", async () => {
    stub.asked.length = 0;
    const { code, out } = await run(["init", "--target", stub.url.replace("http:", "https:")]);
    expect([code, stub.asked.length]).toEqual([3, 0]);
    expect(out.replace(/\s+/g, " ")).toContain(`the scheme that you typed is kept; does ${stub.url} answer?`);
    expect(existsSync(join(folder, "target.json"))).toBe(false);
  });

  test("names in slo and required that are misspelt are told what was meant", async () => {
    const file = join(folder, "misspelt.json");
    const credentials = { server: { key: SERVER_KEY } };
    const judged = { slo: { cht: "p99<=1s" }, required: ["reached/stedy-mix"] };
    writeFileSync(file, JSON.stringify({ schema: "floodgate/target@1", base_url: stub.url, credentials, ...judged }));
    const { code, out } = await run(["doctor", "--target", file]);
    expect(out.replace(/\s+/g, " ")).toMatch(
      /no claim is known as reached\/stedy-mix; did you mean reached\/steady-mix\?/,
    );
    expect(out.replace(/\s+/g, " ")).toMatch(/wrong slo: slo\.cht: .* did you mean chat\?/);
    expect(code).toBe(2);
  });

  test("a foreign host is written down and not asked, and doctor refuses it with exit code 5", async () => {
    const made = await run(["init", "--target", "maps.example/v1"]);
    expect(made.code).toBe(0);
    expect(made.out).toContain("nothing was sent");
    expect(made.out).toContain("--i-own maps.example");
    expect(JSON.parse(readFileSync(join(folder, "target.json"), "utf8")).base_url).toBe("https://maps.example/v1");
    const seen = await run(["doctor", "--target", "target.json"]);
    expect(seen.code).toBe(5);
    expect(seen.out).toMatch(/refused {2}base_url is on maps\.example/);
  });

  test.each<[string, string[], number, RegExp]>([
    ["nobody at the address", ["init", "--target", "127.0.0.1:1"], 3, /no target file was written/],
    [
      "no address at all",
      ["init", "--target", "ftp://x"],
      2,
      /expected a URL that begins with http.* such as https:\/\/maps/,
    ],
    ["a password in the address", ["init", "--target", "http://u:hunter22@127.0.0.1:1"], 2, /without user, query/],
    ["plain http to another machine", ["init", "--target", "http://maps.example/v1"], 2, /in clear.*--plain-http/],
    ["a name that is nobody's address", ["init", "--target", "maps.example.:443"], 2, /without a dot at its end/],
    ["an owner of nothing", ["doctor", "--target", "t.json", "--i-own", ""], 2, /--i-own.*expected a host name/],
    ["an owner of everything", ["doctor", "--target", "t.json", "--i-own", "*"], 2, /--i-own.*expected a host name/],
    ["an owner of a URL", ["init", "--target", "maps.example", "--i-own", "https://maps.example"], 2, /without port/],
    ["an owner of a port", ["verify", "--target", "t.json", "--i-own", "maps.example:443"], 2, /without port/],
    ["two owners in one", ["run", "smoke", "--target", "t.json", "--i-own", "a.example b.example"], 2, /--i-own/],
    ["a target file that is not there", ["doctor", "--target", "no.json"], 2, /expected a readable file/],
  ])("%s is reported in a sentence", async (_what, args, code, message) => {
    const { code: came, err } = await run(args);
    expect([came, err]).toEqual([code, expect.stringMatching(message)]);
    expect(err).not.toMatch(/\n\s+at |hunter22/);
    expect(existsSync(join(folder, "target.json"))).toBe(false);
  });
});

describe("findings as text", () => {
  test("lines are at most 80 columns, words stay whole, what to do has a line of its own", () => {
    const text = findingsText([
      {
        title: "Roles",
        findings: [
          {
            state: "wrong",
            name: "publishable",
            text: "expected one thing and got another ".repeat(4),
            todo: "mend it ".repeat(20),
          },
          { state: "ok", name: "address", text: `https://${"x".repeat(100)}/v1` },
        ],
      },
    ]);
    const lines = text.split("\n");
    expect(lines.filter((line) => line.length > 80)).toEqual([expect.stringContaining("x".repeat(100))]);
    expect(lines[1]).toMatch(/^ {2}wrong {4}publishable: expected/);
    expect(lines.filter((line) => line.startsWith("           To do: mend it"))).toHaveLength(1);
  });
});
