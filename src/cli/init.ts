/** `floodgate init`: writes a commented target file for a deployment, with what can be found out by asking it. */

import { existsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { Command } from "commander";
import { AddressError, type HttpAddress, parseHttpUrl } from "../contract/address.ts";
import { isLoopbackHost } from "../contract/loopback.ts";
import type { StatedStreamEnds } from "../contract/streams.ts";
import { wrapped } from "../report/terminal.ts";
import { UsageError } from "../run/exit-codes.ts";
import { writePrivateFile } from "../supervision/private-file.ts";
import { checkTarget, ORIGIN_TO_REPLACE } from "../target/target-file.ts";
import { type Probed, probeAddress } from "../verify/doctor/find-base-url.ts";
import { askStreamEnds } from "../verify/doctor/stream-ends.ts";
import { KEY_VARIABLES, proposeTarget } from "../verify/doctor/target-proposal.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { I_OWN, once, withOptions } from "./options/checks.ts";
import { findingsText } from "./printing/findings-text.ts";
import { printResult } from "./printing/output.ts";

type InitOptions = { target: string; out: string; origin?: string; ca?: string; iOwn?: string[]; plainHttp?: boolean };

const hasScheme = (text: string): boolean => /^[a-z][a-z0-9+.-]*:\/\//i.test(text);

/** Parses an address. A bare host gets https, or http on loopback, where servers rarely have a certificate. */
const addressOf = (text: string, option: string): HttpAddress => {
  try {
    const asked = parseHttpUrl(hasScheme(text) ? text : `https://${text}`);
    const address = hasScheme(text) || !isLoopbackHost(asked.host) ? asked : parseHttpUrl(`http://${text}`);
    if (address.user + address.query === "") return address;
  } catch (error) {
    if (!(error instanceof AddressError)) throw error;
    throw new UsageError(`${option}: ${error.message}, such as https://maps.example/v1`);
  }
  throw new UsageError(`${option}: expected an address without user, query and fragment; leave them out`);
};

const neverOver = (path: string): UsageError =>
  new UsageError(`${path} is there already and is not overwritten: name another file with --out, or move it`);

const isSet = (name: string): boolean => (process.env[name] ?? "") !== "";

const nextSteps = (
  { out, origin }: InitOptions,
  { host }: HttpAddress,
  has: Record<"publishable" | "server", boolean>,
): string[] => {
  const target = `--target ${out}${isLoopbackHost(host) ? "" : ` --i-own ${host}`}`;
  const unset = (["publishable", "server"] as const).filter((role) => has[role] && !isSet(KEY_VARIABLES[role]));
  const hints: string[] = [];
  if (unset.length === 2) hints.push("With one of the two keys alone: put // before the other role's name there.");
  if (has.publishable && origin === undefined) {
    hints.push(`In ${out}, replace ${ORIGIN_TO_REPLACE} by an origin of your key's allowlist.`);
  }
  return [
    "Next:",
    ...unset.map((role) => `  export ${KEY_VARIABLES[role]}=...      # a ${role} key`),
    ...hints.flatMap((hint) => wrapped(hint, "  ", 2)),
    `  npx floodgate doctor ${target}`,
    `  npx floodgate doctor ${target} --find-limits   # caps`,
    `  npx floodgate verify ${target}`,
    `  npx floodgate run nightly ${target} --dry-run`,
  ];
};

const streamEndsOf = async (proposal: object, path: string, origin?: string): Promise<StatedStreamEnds | undefined> => {
  const has = new Set(isSet(KEY_VARIABLES.server) ? ["server"] : []);
  if (isSet(KEY_VARIABLES.publishable) && origin !== undefined) has.add("publishable");
  if (has.size === 0) return undefined;
  const { target } = checkTarget(proposal, path);
  const { findings, found } = await askStreamEnds(target, dirname(path), has);
  printResult(`${findingsText([{ title: "Streams", findings }])}\n\n`);
  return Object.keys(found).length === 0 ? undefined : found;
};

const probe = async (...[given, ...asked]: Parameters<typeof probeAddress>): Promise<Probed> => {
  const probed = await probeAddress(given, ...asked);
  printResult(`${findingsText([{ title: given, findings: probed.findings }])}\n\n`);
  if (probed.baseUrl !== null) return probed;
  const sentence = "no target file was written, because the API was not found at that address";
  throw new (probed.silent ? TargetUnreachableError : UsageError)(sentence);
};

const init = async (options: InitOptions): Promise<void> => {
  const { target, out, iOwn = [], origin, plainHttp } = options;
  const url = addressOf(target, "--target");
  if (origin !== undefined) addressOf(origin, "--origin");
  const isHere = isLoopbackHost(url.host);
  // Keys are about to be sent there: a mistyped scheme must not send them in clear.
  if (url.scheme !== "https" && !isHere && plainHttp !== true) {
    throw new UsageError(
      `--target: keys would travel to ${url.host} in clear; write https://${url.host}, or say --plain-http if the network between is yours`,
    );
  }
  const path = resolve(out);
  if (existsSync(path)) throw neverOver(out);
  const ca = options.ca === undefined ? undefined : `file:${resolve(options.ca)}`;
  const given = url.href.replace(/\/+$/, "");
  const mayAsk = isHere || iOwn.includes(url.host);
  const schemes = hasScheme(target) || !isHere ? "stated" : "either";
  const probed = mayAsk ? await probe(given, { ca }, dirname(path), schemes) : null;
  const [publishable, server] = [isSet(KEY_VARIABLES.publishable), isSet(KEY_VARIABLES.server)];
  // Where neither key is exported, the file has both roles.
  const has = { publishable: publishable || !server, server: server || !publishable };
  const parts = {
    baseUrl: probed?.baseUrl ?? given,
    seen: probed !== null,
    has,
    keyManagement: probed?.keyManagement ?? true,
    tileUrl: probed?.tileUrl,
    origin: origin?.replace(/\/+$/, ""),
    ca,
  };
  const streamEnds = probed === null ? undefined : await streamEndsOf(proposeTarget(parts), path, origin);
  const content = `${JSON.stringify(proposeTarget({ ...parts, streamEnds }), null, 2)}\n`;
  // Readable by its owner only, because a key may be written into it later.
  await writePrivateFile(path, content, { mayReplace: false }).catch(({ code }: NodeJS.ErrnoException) => {
    if (code === "EEXIST") throw neverOver(out);
    throw new UsageError(`--out ${path}: expected a file that can be written (${code})`);
  });
  const notAsked = [
    ...wrapped(`${url.host} is not loopback, so nothing was sent: base_url stands as you wrote it.`),
    ...wrapped(`If the host is yours, --i-own ${url.host} lets init look for itself.`),
  ];
  const written = `Written: ${out} (no secret is in it: keys are read from the environment)\n`;
  printResult([...(probed === null ? notAsked : []), written, ...nextSteps(options, url, has)].join("\n"));
};

export const command = (): Command =>
  withOptions(new Command("init"), [I_OWN])
    .description("write a commented target file for a deployment")
    .requiredOption("--target <url>", "the deployment's address, with or without /v1", once)
    .option("--out <file>", "where to write; a file that is there is never overwritten", "target.json")
    .option("--plain-http", "allow http:// beyond loopback, where keys travel in clear")
    .option("--origin <url>", "an origin in the publishable key's allowlist")
    .option("--ca <file>", "PEM file of the authority that signed its certificate")
    .action(init);
