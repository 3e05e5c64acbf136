/** `chaos --watchdog`: beside a remote proxy; heals what a run has broken there when its heartbeat stops. */

import { isLoopbackHost } from "../contract/loopback.ts";
import { startWatchdogServer } from "../faults/watchdog-server.ts";
import { UsageError } from "../run/exit-codes.ts";
import { handOverToken, makeToken } from "../supervision/private-file.ts";
import { createSecrets } from "../target/secrets.ts";
import { readTargetFile } from "../target/target-file.ts";
import { printNote, printResult } from "./printing/output.ts";

export const WATCHDOG_LISTENS = "127.0.0.1:8475";
const TOKEN_LEAST = 16;

const addressOf = (text: string): { host: string; port: number } => {
  const [, host = "", port = ""] = /^(\[[0-9a-f:]+\]|[^:]+):(\d{1,5})$/i.exec(text) ?? [];
  if (host === "" || Number(port) > 65_535) {
    throw new UsageError(`--listen: expected HOST:PORT such as ${WATCHDOG_LISTENS}, got "${text}"`);
  }
  return { host: host.replace(/^\[|\]$/g, ""), port: Number(port) };
};

const untilStopped = (): Promise<void> =>
  new Promise((resolve) => {
    for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => resolve());
  });

/** Serves until a signal; heals what is broken then. */
export const watchBesideProxy = async (targetFile: string | undefined, listen: string): Promise<void> => {
  if (targetFile === undefined) {
    throw new UsageError(
      "chaos --watchdog needs --target FILE: the proxies and heal commands that it may use stand there",
    );
  }
  const { target, folder } = await readTargetFile(targetFile);
  if (target.toxiproxy === undefined && target.faults === undefined) {
    throw new UsageError("the target file has neither `toxiproxy` nor `faults`: nothing could be healed");
  }
  const ref = target.watchdog?.token;
  const given = ref === undefined ? null : await createSecrets(folder).read(ref, "watchdog.token");
  const { host, port } = addressOf(listen);
  if (!isLoopbackHost(host) && (given ?? "").length < TOKEN_LEAST) {
    throw new UsageError(
      `--listen ${listen} is not loopback: expected watchdog.token in the target file, of ${TOKEN_LEAST} characters or more, e.g. "env:FLOODGATE_WATCHDOG_TOKEN"`,
    );
  }
  const say = (text: string): void => printNote(`${new Date().toISOString()} ${text}`);
  const token = given ?? makeToken();
  const server = await startWatchdogServer({ target, file: targetFile, host, port, token, say });
  // Runs of the same user on this machine find this token; others need the one that the target file states.
  const handed = given === null ? await handOverToken(server.url, token) : null;
  if (handed !== null) say(`its token is in ${handed.path}`);
  printResult(JSON.stringify({ watchdog: server.url }));
  await untilStopped();
  await server.close();
  await handed?.remove();
};
