import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ENTRY, runCommand, startCommandsInTurn } from "./command.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-cli-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const run = (args: string[]) => runCommand(args);

describe("a mistake", () => {
  const commands = startCommandsInTurn();
  afterAll(commands.kill);

  test.each<[string, string[], number, RegExp]>([
    ["a command that there is not", ["lood"], 2, /unknown command[\s\S]*See: npx floodgate --help/],
    ["help about what there is not", ["help", "verfy"], 2, /there is no command "verfy"; did you mean verify\?/],
    ["an option that there is not", ["run", "--fast"], 2, /unknown option[\s\S]*See: npx floodgate run --help/],
    ["a suite without its command", ["smoke"], 2, /unknown command[\s\S]*smoke is a suite: npx floodgate run smoke/],
    ["an option before its command", ["--target", "t.json", "run"], 2, /Options stand after the command/],
    ["a target file without its option", ["verify", "t.json"], 2, /named by its option: --target t.json/],
    ["a number that is none", ["serve", "--port", "x"], 2, /expected a whole number from 0 to 65535, got "x"/],
    ["a profile that there is not", ["run", "nonsense"], 2, /expected one of smoke/],
    ["a target file that is not there", ["verify", "--target", "/nowhere.json"], 2, /expected a readable file/],
    ["a target file that never ends", ["run", "--target", "/dev/zero"], 2, /it is a device, not a file/],
    ["a demand that is a folder", ["capacity", "--target", "/dev/null", "--demand", "/tmp"], 2, /not a file/],
    ["a baseline that is a device", ["gate", "--baseline", "/dev/zero", "--run", "/tmp"], 2, /is no file of a run/],
    ["two scenarios", ["load", "smoke", "steady-mix"], 2, /load plays one scenario, smoke; got steady-mix as well/],
    [
      "an option twice",
      ["run", "--target", "a.json", "--target", "b.json"],
      2,
      /given already, as a.json; give it once/,
    ],
    ["a seed twice", ["run", "--seed", "1", "--seed=2"], 2, /'--seed <n>' .* given already, as 1; give it once/],
    ["a choice twice", ["load", "--driver", "k6", "--driver", "k6"], 2, /'--driver <\w+>' .* given already, as k6/],
    ["a folder twice", ["report", "a", "--merge", "--out", "b", "--out", "c"], 2, /'--out <dir>' .* already, as b/],
    ["a group of claims", ["explain", "verify"], 2, /verify is a group of \d+ claims; .* verify --list/],
    ["a page where none can be", ["demo", "--page", "/nowhere/x.html"], 2, /\/nowhere\/x.html cannot be written/],
    ["a script that is a device", ["load", "--script", "/dev/zero"], 2, /it is a device, not a file/],
    [
      "a rate and a driver for a script",
      ["load", "--script", "own.ts", "--rate", "5", "--driver", "k6"],
      2,
      /a script of your own decides its load by itself, so there is no --driver, --rate; leave it out/,
    ],
    ["a crash file that never ends", ["dev", "replay", "/dev/zero"], 2, /it is a device, not a file/],
    ["a certificate that never ends", ["serve", "--tls-cert", "/dev/zero", "--tls-key", "x"], 2, /it is a device/],
    [
      "streams for autocannon",
      ["load", "retry-storm", "--driver", "autocannon"],
      2,
      /reads event streams .* use --driver open-loop or --driver k6/,
    ],
    [
      "a schedule for a closed loop",
      ["load", "catalog-reads", "--driver", "autocannon", "--segments", "2"],
      2,
      /--seg/,
    ],
    [
      "--precise for another driver",
      ["load", "smoke", "--driver", "k6", "--precise"],
      2,
      /only the open-loop driver has/,
    ],
    [
      "--precise on too few cores",
      ["load", "catalog-reads", "--precise", "--driver", "open-loop", "--segments", "16"],
      2,
      /expected 17 cores or more/,
    ],
    ["--precise without --calibrate", ["doctor", "--precise"], 2, /give both/],
    ["a cluster without a target", ["load", "smoke", "--operator", "/tmp/nowhere"], 2, /--operator needs --target/],
    [
      "a log whose format is not known",
      ["load", "smoke", "--profile", "package.json"],
      2,
      /its format is not known[\s\S]*line 1 is: \{ +"name": "floodgate"[^\n]*\n[\s\S]*one JSON document/,
    ],
    ["a format that there is not", ["load", "smoke", "--log-format", "mine"], 2, /Allowed choices are alb, nlb-tls/],
    ["a folder that is no run's", ["report", "/tmp"], 2, /is not a complete run folder/],
    ["tenants that nobody would know", ["serve", "--tenants", "3"], 2, /needs --write-target/],
    ["an experiment for a search", ["chaos", "--explore", "limiter-refused"], 2, /draws its own faults/],
    ["a length without a search", ["chaos", "--for", "1m"], 2, /belong to `chaos --explore`/],
    ["a length that is none", ["chaos", "--explore", "--for", "soon"], 2, /expected a length/],
    ["a mutant that there is not", ["dev", "simulate", "--mutant", "nobody-knows-it"], 2, /there is no mutant/],
    ["half a TLS identity", ["serve", "--tls-cert", "x.pem"], 2, /belong together/],
    ["a capacity change that is none", ["serve", "--capacity-change", "soon"], 2, /expected S:slots=N or S:service=F/],
    ["a role without its secret", ["serve", "--role", "api"], 2, /FLOODGATE_ADMIN_SECRET/],
  ])("%s is told in a sentence, with exit code 2 or what fits", async (_what, args, code, message) => {
    const env = { FLOODGATE_SESSION_SECRET: "", FLOODGATE_ADMIN_SECRET: "" };
    const { code: came, err, out } = await commands.run(args, { env });
    expect(err).toMatch(message);
    expect(err).not.toMatch(/\n\s+at /);
    expect(out).toBe("");
    expect(came).toBe(code);
  });

  test("leaves nothing that would keep its process alive", async () => {
    expect(await commands.end()).toEqual([0, null]);
  });
});

describe("the command line", () => {
  test("ends with the exit code and the sentence of a mistake", async () => {
    const { code, out, err } = await run(["lood"]);
    expect([code, out, err]).toEqual([2, "", expect.stringMatching(/unknown command[\s\S]*See: npx floodgate --help/)]);
  });

  test("plays verify without a target on the reference platform", async () => {
    const { code, out, err } = await run(["verify", "--only", "exchange-mints"]);
    expect([code, out, err]).toEqual([0, "", expect.stringMatching(/played on the reference platform/)]);
  });

  test("a temporary folder that is not there is named", async () => {
    const { code, err } = await runCommand(["verify"], { env: { TMPDIR: join(folder, "nowhere") } });
    expect([code, err]).toEqual([
      2,
      expect.stringMatching(/TMPDIR \S+nowhere: there is no such place.*; set TMPDIR to/),
    ]);
  });

  test("a foreign host is refused by the guard with exit code 5", async () => {
    const file = join(folder, "foreign.json");
    const target = {
      schema: "floodgate/target@1",
      base_url: "https://maps.example/v1",
      credentials: { server: { key: "svc_sk_live_0123456789abcdef" } },
    };
    writeFileSync(file, JSON.stringify(target));
    const { code, err } = await run(["verify", "--target", file]);
    expect([code, err]).toEqual([5, expect.stringContaining("say --i-own maps.example")]);
    expect(err).not.toContain("0123456789abcdef");
  });

  test("a target file with a misspelt field is refused", async () => {
    const file = join(folder, "misspelt.json");
    const credentials = { server: { key: "env:FLOODGATE_TEST_KEY" } };
    const target = { schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1", credentials, permit: {} };
    writeFileSync(file, JSON.stringify(target));
    const { code, err } = await run(["verify", "--target", file, "--dry-run"]);
    expect([code, err]).toEqual([2, expect.stringMatching(/permit: .*did you mean permits\?/)]);
  });

  test("the environment names the target file where no option does", async () => {
    const env = { FLOODGATE_TARGET: join(folder, "absent.json") };
    const { code, err } = await runCommand(["verify", "--dry-run"], { env });
    expect([code, err]).toEqual([2, expect.stringContaining("absent.json")]);
  });

  test("a dry run fits 80 columns and says once what many stages lack", async () => {
    const file = join(folder, "mine.json");
    const credentials = { server: { key: "env:FLOODGATE_TEST_KEY" } };
    writeFileSync(
      file,
      JSON.stringify({ schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1", credentials }),
    );
    const { code, out } = await run(["run", "nightly", "--target", file, "--dry-run"]);
    expect([code, out]).toEqual([0, expect.stringMatching(/^Nothing was sent to http:\/\/127\.0\.0\.1:1\/v1\./)]);
    expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
    const said = out.replace(/\n/g, " ").match(/Missing: .*?(?=Skipped: |A run would|$)/g) ?? [];
    expect(said).toContainEqual(expect.stringContaining("toxiproxy"));
    expect(new Set(said).size).toBe(said.length);
    // A stage that is skipped is named once, with what it lacks, and has no line in the table.
    expect(out.match(/limiter-refused\b/g)).toHaveLength(1);
    expect(out.split("\n").length).toBeLessThan(60);
  });

  test("help goes to stdout with exit code 0", async () => {
    const { code, out } = await run(["--help"]);
    expect([code, out]).toEqual([0, expect.stringContaining("Exit codes:")]);
    expect(out.split("\n").filter((line) => line.length > 80)).toEqual([]);
  });

  test("compiled code is kept in the clone, and not where a file may not grow", async () => {
    const { NODE_COMPILE_CACHE: _, ...env } = process.env;
    const asked = `process.on("exit", () => process.stderr.write(String(process.env.NODE_COMPILE_CACHE)))`;
    const start = (...shell: string[]) =>
      spawnSync(
        "sh",
        [
          "-c",
          [...shell, 'exec "$0" "$@"'].join("; "),
          process.execPath,
          "--import",
          `data:text/javascript,${asked}`,
          ENTRY,
          "--version",
        ],
        { env, encoding: "utf8" },
      );
    expect(start()).toMatchObject({ status: 0, stderr: expect.stringMatching(/\/node_modules\/\.cache\/compiled$/) });
    // Node writes it at its very end, where SIGXFSZ would be fatal.
    if (process.platform === "linux") expect(start("ulimit -f 0")).toMatchObject({ status: 0, stderr: "undefined" });
  });
});
