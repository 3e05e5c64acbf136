/** `floodgate init`: a commented target file for a deployment, asked for nothing that can be found out. */

import { constants } from "node:fs";
import { access } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { Command } from "commander";
import { AddressError, type HttpAddress, parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import type { StatedStreamEnds } from "../contract/streams.ts";
import { wrapped } from "../report/terminal.ts";
import { UsageError } from "../run/exit-codes.ts";
import { writePrivateFile } from "../supervision/private-file.ts";
import { checkTarget, ORIGIN_TO_REPLACE } from "../target/target-file.ts";
import { type Probed, probeAddress } from "../verify/doctor/probe-address.ts";
import { askStreamEnds } from "../verify/doctor/stream-ends.ts";
import { KEY_VARIABLES, proposeTarget } from "../verify/doctor/target-proposal.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { I_OWN, once } from "./options/values.ts";
import { findingsText } from "./printing/findings-text.ts";
import { printResult } from "./printing/output.ts";

type InitOptions = {
  target: string;
  out: string;
  iOwn?: string[];
  origin?: string;
  ca?: string;
  plainHttp?: boolean;
};

const hasScheme = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/** A bare host is meant with TLS; this machine's own servers rarely have a certificate. */
const read = (text: string): HttpAddress => {
  if (hasScheme(text)) return parseHttpUrl(text);
  const address = parseHttpUrl(`https://${text}`);
  return isLoopbackHost(address.host) ? parseHttpUrl(`http://${text}`) : address;
};

const addressOf = (text: string, option: string): HttpAddress => {
  const refused = (expected: string): UsageError => new UsageError(`${option}: ${expected}`);
  try {
    const address = read(text);
    if (address.user + address.query === "") return address;
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw refused(`${error.message}, such as https://maps.example/v1`);
  }
  throw refused("expected an address without user, query and fragment; leave them out");
};

/** Keys are about to be sent there: a slip of the pen must not send them in clear. */
const refuseClearText = ({ scheme, host }: HttpAddress, { plainHttp }: InitOptions): void => {
  if (scheme === "https" || isLoopbackHost(host) || plainHttp === true) return;
  throw new UsageError(
    `--target: keys would travel to ${host} in clear; write https://${host}, or say --plain-http if the network between is yours`,
  );
};

const isThere = (path: string): Promise<boolean> =>
  access(path, constants.F_OK).then(
    () => true,
    () => false,
  );

const neverOver = (path: string): UsageError =>
  new UsageError(`${path} is there already and is not overwritten: name another file with --out, or move it`);

const write = async (path: string, content: object): Promise<void> => {
  try {
    // For its owner only: whoever writes a key into it later does not have to think of it.
    await writePrivateFile(path, `${JSON.stringify(content, null, 2)}\n`, { mayReplace: false });
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EEXIST") throw neverOver(path);
    throw new UsageError(`--out ${path}: expected a file that can be written (${code})`);
  }
};

const isSet = (name: string): boolean => (process.env[name] ?? "") !== "";

/** Who has exported one of the two keys has that one; who has exported none has yet to say which. */
const keysHere = (): { publishable: boolean; server: boolean } => {
  const has = { publishable: isSet(KEY_VARIABLES.publishable), server: isSet(KEY_VARIABLES.server) };
  return has.publishable || has.server ? has : { publishable: true, server: true };
};

const nextSteps = (
  options: InitOptions,
  url: HttpAddress,
  has: { publishable: boolean; server: boolean },
): string[] => {
  const own = isLoopbackHost(url.host) ? "" : ` --i-own ${url.host}`;
  const target = `--target ${options.out}${own}`;
  const unset = (["publishable", "server"] as const).filter((role) => has[role] && !isSet(KEY_VARIABLES[role]));
  const originIsOpen = has.publishable && options.origin === undefined;
  return [
    "Next:",
    ...unset.map((role) => `  export ${KEY_VARIABLES[role]}=...      # a ${role} key`),
    ...(unset.length === 2
      ? wrapped("With one of the two keys alone: put // before the other role's name there.", "  ", 2)
      : []),
    ...(originIsOpen
      ? wrapped(`In ${options.out}, replace ${ORIGIN_TO_REPLACE} by an origin of your key's allowlist.`, "  ", 2)
      : []),
    `  npx floodgate doctor ${target}`,
    `  npx floodgate verify ${target}`,
    `  npx floodgate run nightly ${target} --dry-run`,
  ];
};

const notProbed = (url: HttpAddress): string[] => [
  ...wrapped(`${url.host} is not loopback, so nothing was sent: base_url stands as you wrote it.`, "", 0),
  ...wrapped(`If the host is yours, --i-own ${url.host} lets init look for itself.`, "", 0),
];

/** By the keys that are exported, where the address may be asked: nothing else says which event ends a stream. */
const streamEndsOf = async (
  proposal: object,
  path: string,
  { origin }: InitOptions,
): Promise<StatedStreamEnds | undefined> => {
  const has = [
    ...(isSet(KEY_VARIABLES.server) ? ["server"] : []),
    ...(isSet(KEY_VARIABLES.publishable) && origin !== undefined ? ["publishable"] : []),
  ];
  if (has.length === 0) return undefined;
  const { target } = checkTarget(proposal, path);
  const { findings, found } = await askStreamEnds(target, dirname(path), new Set(has));
  printResult(`${findingsText([{ title: "Streams", findings }])}\n\n`);
  return Object.keys(found).length === 0 ? undefined : found;
};

const init = async (options: InitOptions): Promise<void> => {
  const url = addressOf(options.target, "--target");
  if (options.origin !== undefined) addressOf(options.origin, "--origin");
  refuseClearText(url, options);
  const path = resolve(options.out);
  if (await isThere(path)) throw neverOver(options.out);
  const mayAsk = isLoopbackHost(url.host) || (options.iOwn ?? []).includes(url.host);
  const ca = options.ca === undefined ? undefined : `file:${resolve(options.ca)}`;
  const transport = ca === undefined ? {} : { ca };
  const given = url.href.replace(/\/+$/, "");
  const schemes = hasScheme(options.target) || !isLoopbackHost(url.host) ? "stated" : "either";
  const probed: Probed | null = mayAsk ? await probeAddress(given, transport, dirname(path), schemes) : null;
  if (probed !== null) {
    printResult(`${findingsText([{ title: given, findings: probed.findings }])}\n\n`);
    if (probed.baseUrl === null) {
      const sentence = "no target file was written, because the API was not found at that address";
      throw new (probed.silent ? TargetUnreachableError : UsageError)(sentence);
    }
  }
  const has = keysHere();
  const parts = {
    baseUrl: probed?.baseUrl ?? given,
    seen: probed !== null,
    has,
    keyManagement: probed?.keyManagement ?? true,
    ...(probed?.tileUrl === undefined ? {} : { tileUrl: probed.tileUrl }),
    ...(options.origin === undefined ? {} : { origin: options.origin.replace(/\/+$/, "") }),
    ...(ca === undefined ? {} : { ca }),
  };
  const streamEnds = probed === null ? undefined : await streamEndsOf(proposeTarget(parts), path, options);
  await write(path, proposeTarget(streamEnds === undefined ? parts : { ...parts, streamEnds }));
  const head = [
    ...(probed === null ? notProbed(url) : []),
    `Written: ${options.out} (no secret is in it: keys are read from the environment)`,
  ];
  printResult([...head, "", ...nextSteps(options, url, has)].join("\n"));
};

export const initCommand = (): Command =>
  new Command("init")
    .description("write a commented target file for a deployment")
    .requiredOption("--target <url>", "the deployment's address, with or without /v1", once)
    .option("--out <file>", "where to write; a file that is there is never overwritten", "target.json")
    .option(...I_OWN)
    .option("--plain-http", "allow http:// beyond loopback, where keys travel in clear")
    .option("--origin <url>", "an origin in the publishable key's allowlist")
    .option("--ca <file>", "PEM file of the authority that signed its certificate")
    .action(init);
