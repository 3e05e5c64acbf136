import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Worker } from "node:worker_threads";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { afterAll, describe, expect, test } from "vitest";
import { EXIT, exitCodeOf } from "../run/exit-codes.ts";
import { type ProfileOptions, profileOf } from "./load.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-log-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const UTC_0 = Date.UTC(2026, 9, 10, 20, 55, 36);
const line = (k: number, more = ""): string =>
  `203.0.113.9 - alice [10/Oct/2026:20:55:${36 + k} +0000] "GET /v1/maps?key=tell-nobody${more} HTTP/1.1" 200 12\n`;
const LINES = line(0) + line(1) + line(2);
const MOMENTS = [500, 1500, 2500].map((ms) => UTC_0 + ms);

const write = (content: string | Buffer): string => {
  const path = join(mkdtempSync(join(folder, "one-")), "access.log");
  writeFileSync(path, content);
  return path;
};

/** As Google Cloud, CloudWatch and Elasticsearch export them, and HAR. */
const RECORDS = MOMENTS.map((ms) => ({
  httpRequest: { requestMethod: "GET", requestUrl: 'https://a/"[{' },
  timestamp: new Date(ms).toISOString(),
}));
const ENTRIES = MOMENTS.map((ms) => ({ request: { method: "GET" }, startedDateTime: new Date(ms).toISOString() }));
const EVENTS = LINES.trimEnd()
  .split("\n")
  .map((message) => ({ timestamp: UTC_0 + 60_000, message }));
const HITS = EVENTS.map(({ message }) => ({ _id: "x", _source: { message } }));

const refusal = async (options: ProfileOptions): Promise<string> => {
  try {
    await profileOf(options);
  } catch (error) {
    expect(exitCodeOf(error)).toBe(EXIT.usage);
    return (error as Error).message;
  }
  throw new Error("it was not refused");
};

describe("a log file is read", () => {
  test.each<[string, string | Buffer]>([
    ["as it is", LINES],
    ["with the line ends of Windows", LINES.replaceAll("\n", "\r\n")],
    ["with a byte order mark", `\ufeff${LINES}`],
    ["without an end of its last line", LINES.trimEnd()],
    ["with empty lines and comments", `# a note\n\n${LINES}\n\n`],
    ["from gzip", gzipSync(LINES)],
    ["from gzip with a byte order mark", gzipSync(`\ufeff${LINES}`)],
    ["from zstd", zstdCompressSync(LINES)],
    ["from zstd of several frames", Buffer.concat([zstdCompressSync(line(0)), zstdCompressSync(line(1) + line(2))])],
    ["from gzip of several members", Buffer.concat([gzipSync(line(0)), gzipSync(line(1) + line(2))])],
    [
      "with bytes that are no UTF-8",
      Buffer.concat([Buffer.from(LINES), Buffer.from([0xff, 0xfe, 0x0a])]).subarray(0, -3),
    ],
    ["with zero bytes where it was truncated while it was written", `${"\0".repeat(10_000)}${LINES}`],
    ["with a few bytes that a client sent", LINES.replace("GET", "\u0016\u0003\u0001\0")],
    ["with a line of ten million characters", line(0) + line(1, "x".repeat(10_000_000)) + line(2)],
  ])("%s", async (_, content) => {
    const { replayOfMs, replayed } = await profileOf({ profile: write(content) });
    expect(replayOfMs).toEqual(MOMENTS);
    expect(replayed).toMatchObject({ format: "common", calls: 3, unreadable: 0 });
  });

  test.each<[string, string, unknown]>([
    ["Google Cloud", "gcp", RECORDS],
    ["HAR", "har", { log: { version: "1.2", pages: [{ id: "a", startedDateTime: "1999-01-01" }], entries: ENTRIES } }],
    ["CloudWatch", "common", { events: EVENTS, nextForwardToken: "f" }],
    ["Elasticsearch", "common", { took: 3, hits: { total: { value: 3 }, hits: HITS } }],
  ])("from one JSON document: %s", async (_, format, document) => {
    // Longer than what is read at once, so that pieces of the file end anywhere.
    const padded = JSON.parse(JSON.stringify(document), (name, value) =>
      name === "request" || name === "_source" ? { ...value, padding: '\\"'.repeat(100_000) } : value,
    );
    for (const text of [document, padded].flatMap((one) => [JSON.stringify(one), JSON.stringify(one, null, 2)])) {
      const { replayOfMs, replayed } = await profileOf({ profile: write(`${text}\n`) });
      expect(replayOfMs).toEqual(MOMENTS);
      expect(replayed).toMatchObject({ format, calls: 3, unreadable: 0 });
    }
  });

  test("from several files in any order, of which the newest may be empty", async () => {
    const [a, b, c] = [LINES, LINES.replaceAll("20:55:", "20:56:"), LINES.replaceAll("20:55:", "20:54:")];
    const paths = [write(zstdCompressSync(b)), write(""), write(gzipSync(c)), write(a)];
    const { replayOfMs, replayed } = await profileOf({ profile: paths });
    expect(replayOfMs).toEqual([-60_000, 0, 60_000].flatMap((by) => MOMENTS.map((ms) => ms + by)));
    expect(replayed).toMatchObject({ calls: 9, files: 4, longest_silence_s: 58 });
    expect(replayed?.clock_back).toBeUndefined();
    const twice = [write(a), write(b), write(gzipSync(a))];
    expect(await refusal({ profile: twice })).toBe(
      `--profile ${twice[2]}: it holds the same calls as ${twice[0]}; give one of them`,
    );
    expect(await refusal({ profile: [write(a), "spike"] })).toMatch(/spike: it is a profile of its own/);
    const bad = write("neither\nnor\n");
    expect(await refusal({ profile: [write(a), bad] })).toMatch(`--profile ${bad}: its format is not known`);
  });

  test("by the format and the field that are named", async () => {
    const profile = write(`1760129736.5 a\n1760129737.5 b\n`);
    expect((await profileOf({ profile, logFormat: "epoch" })).replayOfMs).toEqual([
      1_760_129_736_500, 1_760_129_737_500,
    ]);
    expect((await profileOf({ profile, timeField: "1" })).replayed).toMatchObject({ format: "named-field" });
  });
});

describe("a log file is refused in a sentence", () => {
  const cut = gzipSync(LINES.repeat(1000));
  test.each<[string, string | Buffer, RegExp]>([
    ["an empty one", "", /: it is empty/],
    ["one without a line", "\n\n", /there is no line in it/],
    ["one without a line in gzip", gzipSync(""), /there is no line in it/],
    ["one call", line(0), /it has 1 call; expected two or more/],
    ["UTF-16", Buffer.from(`\ufeff${LINES}`, "utf16le"), /is UTF-16; expected UTF-8\. Convert it/],
    ["UTF-16 without its mark", Buffer.from(LINES, "utf16le"), /is no text/],
    ["bytes", Buffer.from([1, 0, 2, 0, 3]), /is no text/],
    ["an archive in gzip", gzipSync(Buffer.from([97, 0, 0, 0])), /holds, unpacked, no log: it is no text/],
    ["zstd that is damaged", Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x08, 1]), /zstd data that are damaged/],
    ["zstd that is cut short", zstdCompressSync(LINES.repeat(1000)).subarray(0, -20), /cut short: its zstd data/],
    ["xz", Buffer.from("\xfd7zXZ\0", "latin1"), /is compressed by xz; expected text, gzip or zstd/],
    ["gzip that is cut short", cut.subarray(0, cut.length - 20), /is cut short/],
    ["gzip that is damaged", Buffer.concat([gzipSync(LINES).subarray(0, 12), Buffer.alloc(40, 7)]), /damaged/],
    [
      "an unknown format",
      "9000007919 10.0.0.1 GET /a 10:00:01\n",
      /format is not known.*line 1 is: 9000007919 \[address\]/,
    ],
    [
      "a JSON document with its calls where none are looked for",
      '{\n"calls":[{"at":1}]\n}\n',
      /looks like one JSON document.*jq -c/,
    ],
    [
      "a JSON document that is cut short",
      JSON.stringify(RECORDS, null, 1).slice(0, -4),
      /is cut short: a JSON document/,
    ],
    ["zero bytes alone", "\0".repeat(10_000), /there is no line in it/],
    [
      "a line of 1970",
      `${LINES}203.0.113.9 - - [01/Jan/1970:00:00:00 +0000] "GET / HTTP/1.1" 200 1\n`,
      /line 4 is of 1970-01-01T00:00:00/,
    ],
    [
      "a fortnight",
      LINES + LINES.replaceAll("10/Oct", "24/Oct"),
      /would take 14 days, more than the 7 that are played/,
    ],
  ])("%s", async (_, content, says) => {
    expect(await refusal({ profile: write(content) })).toMatch(says);
  });

  test("a folder, a pipe and what is not there", async () => {
    expect(await refusal({ profile: folder })).toMatch(/is a folder, not a file/);
    const pipe = join(folder, "pipe");
    execFileSync("mkfifo", [pipe]);
    expect(await refusal({ profile: pipe })).toMatch(/is a named pipe, not a file/);
    expect(await refusal({ profile: join(folder, "nowhere") })).toMatch(
      /there is no such file\. Expected one of constant/,
    );
  });

  test("with --arrivals, which would be ignored", async () => {
    expect(await refusal({ profile: write(LINES), arrivals: "poisson" })).toMatch(
      /there is no --arrivals; leave it out/,
    );
    expect(await profileOf({ profile: "ramp", arrivals: "poisson" })).toEqual({ loadProfile: "ramp" });
  });

  test("a line within which the file ends is counted, and refuses nothing", async () => {
    const ends = { profile: write(`${LINES}203.0.113.9 - alice [10/Oct/2026:20:`) };
    expect((await profileOf(ends)).replayed).toMatchObject({ calls: 3, unreadable: 1 });
    expect(await refusal({ profile: write(`${LINES}203.0.113.9 - alice [10/Oct/2026:20:\n`) })).toMatch(/1 of 4 lines/);
  });

  test("when more than one line in a hundred cannot be read, unless they are to be left out", async () => {
    const profile = write(LINES.repeat(20) + "cut off\n".repeat(2));
    expect(await refusal({ profile })).toMatch(
      /2 of 62 lines \(3\.2 %\) cannot be read as common, more than 1 %.*line 61: cut off\n.*--skip-unreadable/,
    );
    expect((await profileOf({ profile, skipUnreadable: true })).replayed).toMatchObject({ calls: 60, unreadable: 2 });
  });

  test("and the line that is shown has no secret, no address and no control character", async () => {
    const profile = write(
      `203.0.113.9 2001:db8::1:2 alice@example.com GET /a?token=tell-nobody Bearer abc.def password=hunter2 "api_key":"s3cret" session: deadbeef svc_sk_live_abcdefgh12345678 6f9619ff-8b86-d011-b42d-00cf4fc964ff \u001b[31m ${"long ".repeat(200)}\n`,
    );
    const message = await refusal({ profile });
    const [first] = message.split("\n") as [string];
    expect(first).toContain("GET /a?[query]");
    expect(first).not.toMatch(/203|2001|alice|nobody|abc\.def|hunter2|s3cret|deadbeef|abcdefgh|6f9619ff/);
    expect(first).not.toContain("\u001b");
    expect(first.length).toBeLessThan(500);
  });

  test.each([
    '{"headers":[{"name":"X-Api-Key", "value":"hunter2"}]}',
    String.raw`{"log":"{\"api_key\":\"hunter2\"}"}`,
    String.raw`{"message":"{\\\"token\\\": \\\"hunter2\\\"}"}`,
    '{"name":"authorization","value":"Basic hunter2"} Authorization: Bearer hunter2',
    'GET https://user:hunter2@host/a "pwd":"hunter2"',
  ])("and a value that is secret by its name is masked in %s", async (text) => {
    expect((await refusal({ profile: write(`${text}\n`) })).split("\n")[0]).not.toContain("hunter2");
  });

  test("when --duration leaves less than two calls of it, or is longer than is played", async () => {
    const profile = write(LINES + LINES.replaceAll("10/Oct", "15/Oct"));
    expect(await refusal({ profile: write(line(0) + line(20) + line(21)), duration: 5 })).toMatch(/one call alone/);
    expect((await profileOf({ profile, duration: 5 })).replayed).toMatchObject({ calls: 6 });
    expect(await refusal({ profile, rate: 1e-6 })).toMatch(/would take 58 days/);
  });

  test("when an option about a log is given without one", async () => {
    expect(await refusal({ profile: "spike", logFormat: "alb" })).toMatch(/--log-format is about an access log/);
    expect(await refusal({ timeField: "ts" })).toMatch(/--time-field is about an access log/);
  });
});

test("a log of many megabytes takes no more memory than its moments", async () => {
  // 150 MB unpacked, and a heap that cannot hold them.
  const profile = write(gzipSync(line(0, "x".repeat(4000)).repeat(250).repeat(150), { level: 1 }));
  const program = `
    const { parentPort, workerData } = require("node:worker_threads");
    const { module, profile } = workerData;
    import(module).then(({ profileOf }) => profileOf({ profile })).then(({ replayed }) => parentPort.postMessage(replayed));
  `;
  const worker = new Worker(program, {
    eval: true,
    workerData: { module: new URL("./load.ts", import.meta.url).href, profile },
    resourceLimits: { maxOldGenerationSizeMb: 64, maxYoungGenerationSizeMb: 16 },
  });
  const [replayed] = await once(worker, "message");
  expect(replayed).toMatchObject({ calls: 37_500 });
});
