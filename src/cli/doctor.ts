/**
 * `floodgate doctor`: tools, what this machine can measure, whether a target file works, and its deployment's limits;
 * `floodgate init`: a commented target file for a deployment, with what its answers show.
 */
import { dirname, resolve } from "node:path";
import { AddressError, type HttpAddress, isLoopbackHost, parseHttpUrl } from "../contract/address.ts";
import type { StatedStreamEnds } from "../contract/streams.ts";
import { checkObjectives } from "../history/objective-verdicts.ts";
import { ObjectiveError } from "../history/objectives.ts";
import { counted } from "../report/figures.ts";
import { wrapped } from "../report/terminal.ts";
import { calibrateMachine } from "../run/calibration/calibrate.ts";
import { EXIT, EXIT_OF_SIGNAL, worstExit } from "../run/exit-codes.ts";
import { findLimits } from "../run/limits/find-limits.ts";
import * as copies from "../run/limits/limits-into-file.ts";
import { misspeltRequired, prepareTarget } from "../stages/stage-plan.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { checkNewFile, UsageError, writeNewJson } from "../supervision/user-file.ts";
import type { Target } from "../target/target.ts";
import { checkTarget, lockTarget, ORIGIN_TO_REPLACE, readTargetFile } from "../target/target-file.ts";
import { diagnoseTarget, tryProposal } from "../verify/doctor/diagnose-target.ts";
import { type Probed, probeAddress } from "../verify/doctor/find-base-url.ts";
import { type Finding, finding, type Section, worstOf } from "../verify/doctor/finding.ts";
import { calibrationSection, machineHere, toolsHere } from "../verify/doctor/this-machine.ts";
import { KEY_VARIABLES, proposeTarget } from "../verify/doctor/what-would-run.ts";
import { TargetUnreachableError } from "../verify/reach.ts";
import { NOTHING_SPENT, type Spent } from "../workload/budget.ts";
import { checkPrecise, commandOf, type Exclusion, I_OWN, type OptionRow } from "./options.ts";
import { printNote, printResult, printShown } from "./printing.ts";

/** The column in which a finding's text begins, behind its state. */
const INDENT = 11;

const findingLines = ({ state, name, text, todo }: Finding): string[] => [
  ...wrapped(`${name}: ${text}`, `  ${(state === "info" ? "-" : state).padEnd(INDENT - 2)}`, INDENT),
  ...(todo === undefined ? [] : wrapped(todo, `${" ".repeat(INDENT)}To do: `, INDENT + 7)),
];

export const findingsText = (sections: readonly Section[]): string =>
  sections.map(({ title, findings }) => [title, ...findings.flatMap(findingLines)].join("\n")).join("\n\n");

type DoctorOptions = Partial<Record<"json" | "calibrate" | "precise" | "findLimits", boolean>> &
  Partial<Record<"target" | "out", string>> & { iOwn?: string[] };

/** A fixed seed, so that calibrations play the same schedule and can be compared. */
const SEED = 1;

const REQUESTS_LEAST = 200;

const EXIT_OF = { wrong: EXIT.usage, silent: EXIT.unreachable, missing: EXIT.unreachable } as const;

const closing = (exitCode: number, { target, iOwn = [] }: DoctorOptions, copy: string | null): string => {
  const own = iOwn.length === 0 ? "" : ` --i-own ${iOwn.join(" ")}`;
  if (copy !== null) return `Next: npx floodgate load chat-past-capacity --target ${copy}${own}`;
  const verdicts: Readonly<Record<number, string>> = {
    [EXIT.pass]:
      target === undefined
        ? "Nothing that a run needs is missing."
        : `Next: npx floodgate verify --target ${target}${own}`,
    [EXIT.usage]:
      target === undefined
        ? "No run can begin here: see the lines that begin with wrong."
        : `${target}, or this machine, has to be mended first: see the lines that begin with wrong.`,
    [EXIT.unreachable]: "See the lines that begin with silent or missing: that cannot be reached.",
    [EXIT.inconclusive]: "This machine does not measure time well enough just now: see the lines that begin with warn.",
    [EXIT.guarded]: "Refused by the safety guard; nothing was sent.",
  };
  return verdicts[exitCode] ?? "Stopped: what was found until then is above, and no copy was written.";
};

const judgedFields = (target: Target): Finding[] => {
  const misspelt = misspeltRequired(target).map((text) => finding("wrong", "file", text));
  try {
    checkObjectives(target);
    return misspelt;
  } catch (error) {
    if (!(error instanceof ObjectiveError)) throw error;
    return [...misspelt, finding("wrong", "slo", error.message)];
  }
};

/** `spent`: what this command has spent of the budget already. */
const lookForLimits = async (file: string, copy: string, iOwn: readonly string[], spent: Partial<Spent>) => {
  const prepared = await prepareTarget(file, iOwn, { load: true, faults: false, requests: REQUESTS_LEAST });
  prepared.budget.absorb({ ...NOTHING_SPENT, ...spent }, null);
  const { target } = prepared;
  using atEnd = new DisposableStack();
  const lock = lockTarget(target.base_url);
  atEnd.defer(lock.release);
  const stop = listenForStop((signal, times) => {
    // The lock is all that has to be released.
    lock.release();
    if (times > 1) process.exit(EXIT_OF_SIGNAL[signal]);
  });
  atEnd.defer(stop.release);
  const found = await findLimits({
    ...prepared,
    signal: stop.signal,
    onProgress: (text) => printNote(`limits: ${text}`),
  });
  const decided = copies.decideLimits(found, target);
  const signal = stop.stoppedBy();
  const isWritten = signal === null && Object.keys(decided.limits).length > 0;
  if (isWritten) await copies.writeCopy(file, copy, decided, target.exclusive === true);
  const unwritten = finding("skipped", "copy", `${copy} is not written`);
  const findings = [...decided.findings, isWritten ? copies.copyFinding(copy, decided, target) : unwritten];
  return {
    section: { title: "Limits", findings },
    document: { ...decided.limits, calls: found.calls, copy: isWritten ? copy : null },
    calls: found.calls,
    next: isWritten && decided.isFixed && target.exclusive === true ? copy : null,
    exitCode: signal === null ? EXIT.pass : (EXIT_OF_SIGNAL[signal] ?? EXIT.inconclusive),
  };
};

const doctor = async (options: DoctorOptions): Promise<void> => {
  const { target, iOwn = [], calibrate, precise = false } = options;
  if (precise) checkPrecise("open-loop");
  const copy = target === undefined || options.findLimits !== true ? null : copies.copyOf(target, options.out);
  if (copy !== null) {
    copies.checkPermitted((await readTargetFile(target as string)).target);
    await checkNewFile(copy);
  }
  const diagnosis = target === undefined ? null : await diagnoseTarget(target, iOwn, judgedFields);
  const { signal } = new AbortController();
  const calibrated = calibrate === true ? await calibrateMachine({ seed: SEED, precise, signal }) : null;
  const sections = [
    await toolsHere(),
    await machineHere(REPOSITORY),
    ...(calibrated === null ? [] : [calibrationSection(calibrated)]),
    ...(diagnosis?.sections ?? []),
  ];
  const refused = diagnosis?.refusedByGuard ?? [];
  const worst = worstOf(sections);
  const isSound = worst === null && refused.length === 0;
  const limits =
    copy === null || !isSound ? null : await lookForLimits(target as string, copy, iOwn, diagnosis?.spent ?? {});
  if (limits !== null) sections.push(limits.section);
  const isMeasured = calibrated?.checks.every(({ verdict }) => verdict === "pass") ?? true;
  const ofFindings = worst !== null ? EXIT_OF[worst] : isMeasured ? EXIT.pass : EXIT.inconclusive;
  const exitCode = refused.length > 0 ? EXIT.guarded : worstExit(ofFindings, limits?.exitCode ?? EXIT.pass);
  const { spent } = diagnosis ?? {};
  const document = {
    ...{ schema: "floodgate/doctor@1", sections, refused_by_guard: refused },
    calibration: calibrated === null ? undefined : [...calibrated.checks, ...calibrated.ceilings],
    ...{ limits: limits?.document, spent, exit_code: exitCode },
  };
  const guard = refused.flatMap((reason) => wrapped(reason, "  refused  ", 11));
  const cost =
    spent &&
    `Spent: ${counted(spent.requests + (limits?.calls ?? 0), "call")}, ${counted(spent.map_loads, "map load")}.\n`;
  const end = `${cost ?? ""}${closing(exitCode, options, limits?.next ?? null)}`;
  const parts = [findingsText(sections), guard.join("\n"), end].filter((part) => part !== "");
  printShown(options.json, { document, lines: [parts.join("\n\n")] });
  process.exitCode = exitCode;
};

const EXCLUSIONS: readonly Exclusion[] = [
  ["precise", "!calibrate", "--precise changes how --calibrate measures; give both"],
  ["find-limits", "!target", "--find-limits calls a deployment; name its file with --target"],
  ["out", "!find-limits", "--out names the copy that --find-limits writes; give both"],
];

const OPTIONS: readonly OptionRow[] = [
  ["--target <file>", "also try each role of this target file once (at most 60 calls)"],
  I_OWN,
  ["--calibrate", "also play known delays and stalls to both drivers, and which rates ours holds (30 s)"],
  ["--precise", "calibrate the open-loop driver as load --precise uses it: it takes a whole core"],
  ["--find-limits", `find caps, slots, rate and burst by calls (${copies.AT_MOST}), into a copy of the file`],
  ["--out <file>", "the copy that --find-limits writes (default: FILE.limits.json)"],
  ["--json", "print what was found as JSON on stdout"],
];

const ABOUT = "look at tools, this machine and, with --target, a target file";

export const doctorCommand = () =>
  commandOf("doctor", { about: ABOUT, options: OPTIONS, exclusions: EXCLUSIONS }).action(doctor);

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

const isSet = (name: string): boolean => (process.env[name] ?? "") !== "";

type Role = keyof typeof KEY_VARIABLES;

const nextSteps = ({ out, origin }: InitOptions, { host }: HttpAddress, has: Record<Role, boolean>): string[] => {
  const target = `--target ${out}${isLoopbackHost(host) ? "" : ` --i-own ${host}`}`;
  const unset = (Object.keys(KEY_VARIABLES) as Role[]).filter((role) => has[role] && !isSet(KEY_VARIABLES[role]));
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

/** `worst`: what makes the file useless as it stands; `null` if nothing does, or nothing was tried. */
type Tried = { worst: ReturnType<typeof worstOf>; streamEnds?: StatedStreamEnds | undefined };

/** Tries the keys that are exported. */
const tryKeys = async (proposal: object, path: string, origin?: string): Promise<Tried> => {
  const { target } = checkTarget(proposal, path);
  const { publishable, server } = target.credentials ?? {};
  const credentials = {
    ...(isSet(KEY_VARIABLES.publishable) && origin !== undefined && { publishable }),
    ...(isSet(KEY_VARIABLES.server) && { server }),
  };
  if (Object.keys(credentials).length === 0) return { worst: null };
  const { sections, found } = await tryProposal({ ...target, credentials }, dirname(path));
  printResult(`${findingsText(sections)}\n\n`);
  return { worst: worstOf(sections), streamEnds: Object.keys(found).length === 0 ? undefined : found };
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
  await checkNewFile(path, out);
  const ca = options.ca === undefined ? undefined : `file:${resolve(options.ca)}`;
  const given = url.href.replace(/\/+$/, "");
  const mayAsk = isHere || iOwn.includes(url.host);
  const schemes = hasScheme(target) || !isHere ? "stated" : "either";
  const probed = mayAsk ? await probe(given, { ca }, dirname(path), schemes) : null;
  const [publishable, server] = [isSet(KEY_VARIABLES.publishable), isSet(KEY_VARIABLES.server)];
  // If neither key is exported, the file gets both roles.
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
  const tried: Tried = probed === null ? { worst: null } : await tryKeys(proposeTarget(parts), path, origin);
  const { worst, streamEnds } = tried;
  await writeNewJson(path, proposeTarget({ ...parts, streamEnds }), out);
  const notAsked = [
    ...wrapped(`${url.host} is not loopback, so nothing was sent: base_url stands as you wrote it.`),
    ...wrapped(`If the host is yours, --i-own ${url.host} lets init look for itself.`),
  ];
  const written = `Written: ${out} (no secret is in it: keys are read from the environment)\n`;
  const useless =
    worst === null
      ? []
      : wrapped(`It cannot be used as it is: see the lines that begin with ${worst}, and mend that first.`);
  printResult([...(probed === null ? notAsked : []), written, ...useless, ...nextSteps(options, url, has)].join("\n"));
  if (worst !== null) process.exitCode = EXIT_OF[worst];
};

export const initCommand = () =>
  commandOf("init", {
    about: "write a commented target file for a deployment",
    options: [
      I_OWN,
      ["--out <file>", "where to write; a file that is there is never overwritten", undefined, "target.json"],
      ["--plain-http", "allow http:// beyond loopback, where keys travel in clear"],
      ["--origin <url>", "an origin in the publishable key's allowlist"],
      ["--ca <file>", "PEM file of the authority that signed its certificate"],
    ],
  })
    .requiredOption("--target <url>", "the deployment's address, with or without /v1")
    .action(init);
