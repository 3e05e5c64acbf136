/**
 * Prepares a deployment before a run sends anything: runs the commands of its `fixtures`, then looks once whether it
 * accepts connections by the stated protocol and with a trusted certificate.
 */
import { dirname } from "node:path";
import { toldOf } from "../client/network-errors.ts";
import { certificateText, lookAtTcp, lookAtTls, placeOf, speaksPlainHttp, speaksTls } from "../client/tls-look.ts";
import { tlsFiles, wrongTlsFile } from "../client/transport.ts";
import type { RunContext } from "../deployments/deployment.ts";
import type { PreparedTarget } from "../stages/prepare-target.ts";
import { runShellCommand } from "../supervision/child.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { UsageError } from "./exit-codes.ts";

const refuse = ({ text, todo }: ReturnType<typeof toldOf>): never => {
  throw new TargetUnreachableError(`${text}; ${todo}`);
};

/** Throws `TargetUnreachableError`, or `SecretError` and `UsageError` for a file that is missing or wrong. */
export const lookFirst = async ({ target, secrets }: Pick<PreparedTarget, "target" | "secrets">): Promise<void> => {
  const { transport = {}, base_url: url } = target;
  const wrong = wrongTlsFile(await tlsFiles(transport, secrets));
  if (wrong !== null) throw new UsageError(wrong);
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    await secrets.read(ref, `transport.headers.${name}`);
  }
  const proxy = typeof transport.proxy === "string" ? await secrets.read(transport.proxy, "transport.proxy") : url;
  const code = URL.canParse(proxy) ? await lookAtTcp(placeOf(proxy)) : null;
  if (code !== null) refuse(toldOf(`${proxy === url ? url : "the proxy of transport.proxy"} does not answer`, code));
  if (proxy !== url) return;
  const seen = await lookAtTls(target, secrets);
  if (seen === null) {
    const isTlsAlone = (await speaksTls(placeOf(url))) && !(await speaksPlainHttp(url));
    if (isTlsAlone) refuse(toldOf(`${url} does not answer`, "tls_expected"));
  } else if ("error" in seen) refuse(toldOf(`${url}: the handshake failed`, seen.error));
  else if (transport.protocol === "h2" && seen.alpn !== "h2") {
    const todo = 'write "h1" there, or turn HTTP/2 on at the gateway';
    refuse({ text: `${url}: offers HTTP/1.1 alone, and transport.protocol says h2`, todo });
  } else if (seen.distrust !== null) refuse(toldOf(`${url}: ${certificateText(seen)}; not trusted`, seen.distrust));
};

const LIMIT_MS = 300_000;

/** Runs `fixtures.reset`, then `fixtures.provision`; their output goes to `logs/`. */
export const prepareFixtures = async (context: RunContext, { file, target }: PreparedTarget): Promise<void> => {
  for (const name of ["reset", "provision"] as const) {
    const command = target.fixtures?.[name];
    if (command === undefined || command === null) continue;
    context.events.step(`fixtures.${name} of ${file}`);
    const id = context.journal.about({ kind: "fixture", name: `fixtures.${name}`, detail: command });
    try {
      const said: string[] = [];
      const signal = AbortSignal.any([context.signal, AbortSignal.timeout(LIMIT_MS)]);
      const onOutput = (text: string): void => void said.push(text);
      await runShellCommand(command, { what: `command of fixtures.${name}`, cwd: dirname(file), signal, onOutput });
      await context.folder.writeText(`logs/fixtures-${name}.log`, said.join(""));
      context.journal.undone(id, "done");
    } catch (error) {
      const why = `expected the command to end with 0: ${(error as Error).message}`;
      throw new TargetUnreachableError(`fixtures.${name} of ${file}: ${why}`);
    }
  }
};
