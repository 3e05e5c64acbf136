/** A headless Chromium, driven over its debugging pipe (Chrome DevTools Protocol), so that it opens no port. */
import { type ChildProcess, spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import type { Readable, Writable } from "node:stream";

const NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const FLAGS = [
  ...["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"],
  ...["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"],
  "--remote-debugging-pipe",
];
const ANSWER_MS = 20_000;

/** Returns the path of an installed Chromium; `null` if there is none. */
export const findChromium = (): string | null => {
  const folders = (process.env.PATH ?? "").split(delimiter);
  for (const path of NAMES.flatMap((name) => folders.map((folder) => join(folder, name)))) {
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {}
  }
  return null;
};

type Message = {
  id?: number;
  method?: string;
  params?: Record<string, unknown>;
  result?: Record<string, unknown>;
  error?: { message: string };
};

/** Console messages, errors and requested URLs of a page. */
type Seen = { messages: string[]; requests: string[] };

export class Chromium {
  readonly #child: ChildProcess;
  readonly #profile: string;
  readonly #waiting = new Map<number, (message: Message) => void>();
  #listeners = new Set<(message: Message) => void>();
  #last = 0;
  #session = "";

  private constructor(child: ChildProcess, profile: string) {
    this.#child = child;
    this.#profile = profile;
    let text = "";
    (child.stdio[4] as Readable).setEncoding("utf8").on("data", (chunk: string) => {
      const parts = (text + chunk).split("\0");
      text = parts.pop() ?? "";
      for (const part of parts) this.#take(JSON.parse(part) as Message);
    });
  }

  static async start(path: string): Promise<Chromium> {
    const profile = mkdtempSync(join(tmpdir(), "floodgate-chromium-"));
    const child = spawn(path, [...FLAGS, `--user-data-dir=${profile}`], {
      stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"],
    });
    const chromium = new Chromium(child, profile);
    const { targetId } = await chromium.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await chromium.send("Target.attachToTarget", { targetId, flatten: true });
    chromium.#session = sessionId as string;
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await chromium.send(`${domain}.enable`, {});
    return chromium;
  }

  #take(message: Message): void {
    const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
    if (waiting !== undefined) waiting(message);
    else for (const listener of this.#listeners) listener(message);
  }

  /** Rejects if no answer comes in time, or an error. */
  send(method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    this.#last += 1;
    const id = this.#last;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer in ${ANSWER_MS} ms`)), ANSWER_MS);
      this.#waiting.set(id, ({ result, error }) => {
        clearTimeout(timer);
        this.#waiting.delete(id);
        if (error === undefined) resolve(result ?? {});
        else reject(new Error(`${method}: ${error.message}`));
      });
      const session = this.#session === "" ? {} : { sessionId: this.#session };
      (this.#child.stdio[3] as Writable).write(`${JSON.stringify({ id, method, params, ...session })}\0`);
    });
  }

  /** Opens a page at a width and in a colour scheme and waits until it has loaded; later events are added to the result. */
  async open(url: string, { width, scheme }: { width: number; scheme: "light" | "dark" }): Promise<Seen> {
    const seen: Seen = { messages: [], requests: [] };
    await this.send("Emulation.setDeviceMetricsOverride", { width, height: 900, deviceScaleFactor: 1, mobile: false });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: scheme }] });
    let listen: (message: Message) => void = () => undefined;
    const loaded = new Promise<void>((resolve) => {
      listen = ({ method, params = {} }) => {
        if (method === "Page.loadEventFired") resolve();
        if (method === "Network.requestWillBeSent") {
          seen.requests.push((params.request as { url: string }).url);
        }
        if (/^(?:Runtime\.consoleAPICalled|Runtime\.exceptionThrown|Log\.entryAdded)$/.test(method ?? "")) {
          seen.messages.push(JSON.stringify(params));
        }
      };
    });
    this.#listeners = new Set([listen]);
    await this.send("Page.navigate", { url });
    await loaded;
    return seen;
  }

  /** Returns the value of an expression in the page. */
  async evaluate<T>(expression: string): Promise<T> {
    const answer = await this.send("Runtime.evaluate", { expression, returnByValue: true });
    if (answer.exceptionDetails !== undefined) throw new Error(JSON.stringify(answer.exceptionDetails));
    return (answer.result as { value: T }).value;
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.once("exit", resolve));
    this.#child.kill("SIGKILL");
    await ended;
    rmSync(this.#profile, { recursive: true, force: true, maxRetries: 5 });
  }
}
