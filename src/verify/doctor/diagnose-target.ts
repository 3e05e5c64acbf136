/** `doctor --target`: what a few single calls show of a target file and its deployment. Loads, makes and charges nothing unpermitted. */
import { tlsFiles, wrongTlsFile } from "../../client/transport.ts";
import { beforeSignalEnds } from "../../supervision/stop-signals.ts";
import { lockTarget } from "../../target/lock.ts";
import { createSecrets, isReference, SecretError, type Secrets } from "../../target/secrets.ts";
import type { Target } from "../../target/target.ts";
import { readTargetFile } from "../../target/target-file.ts";
import { guardTarget } from "../../target/target-guard.ts";
import { type Budget, createBudget } from "../planning/needs.ts";
import { clockFinding, echoFinding, latencyFinding, protocolFindings } from "./connection.ts";
import { lookAtOthers } from "./control-answers.ts";
import { addressFinding } from "./find-base-url.ts";
import { type Finding, finding, okIf, type Section } from "./finding.ts";
import { tryAdmins, tryRoles, tryTenants } from "./role-trials.ts";
import { CALLS_MAX, openSingleCalls, type SingleCalls } from "./single-calls.ts";
import { findStreamEnds, writeStreamEnds } from "./stream-ends.ts";
import { faultFinding, scenarioFindings, verifyFindings } from "./what-would-run.ts";

const sectionOf = (title: string, findings: readonly Finding[]): Section[] =>
  findings.length === 0 ? [] : [{ title, findings }];

const unreadable = async ({ credentials = {}, tenants = [] }: Target, secrets: Secrets): Promise<Finding[]> => {
  const roles = Object.entries(credentials).map(([role, one]) => {
    return [role, `credentials.${role}`, "token" in one ? one.token : one.key] as const;
  });
  const keys = tenants.flatMap(({ org, publishable, server }) => [
    [`${org}, publishable`, `tenants (${org}).publishable.key`, publishable?.key] as const,
    [`${org}, server`, `tenants (${org}).server.key`, server?.key] as const,
  ]);
  const findings: Finding[] = [];
  for (const [name, what, ref] of [...roles, ...keys]) {
    if (ref === undefined || !isReference(ref)) continue;
    try {
      await secrets.read(ref, what);
    } catch (error) {
      if (!(error instanceof SecretError)) throw error;
      findings.push(finding("wrong", name, error.message));
    }
  }
  return findings;
};

type Parts = { target: Target; folder: string; secrets: Secrets; calls: SingleCalls; budget: Budget };

/** With the first role alone: enough to see whether the deployment hides from strangers. */
const onlyOneRole = (target: Target): Target => {
  const [first] = Object.entries(target.credentials ?? {});
  return first === undefined ? target : { ...target, credentials: { [first[0]]: first[1] } };
};

const streamFindings = async (
  file: string,
  { target, calls }: Parts,
  roles: readonly Finding[],
): Promise<Finding[]> => {
  const works = new Set(roles.flatMap(({ state, name }) => (state === "ok" || state === "warn" ? [name] : [])));
  const { findings, found } = await findStreamEnds(target, calls, works);
  if (target.stream_end !== undefined || Object.keys(found).length === 0) return findings;
  const field = `"stream_end": ${JSON.stringify(found)}`;
  const meant = `written into ${file}: ${field}; a stream without that event is judged as cut from now on`;
  const unwritten = `${file} does not state it, and could not be written`;
  const isWritten = await writeStreamEnds(file, found);
  return [...findings, okIf(isWritten, "stream_end", isWritten ? meant : unwritten, `add ${field}`, "info")];
};

const askDeployment = async (file: string, parts: Parts): Promise<Section[]> => {
  const { target, folder, secrets, calls } = parts;
  const { found, goOn } = await addressFinding(target, folder, calls);
  const works = ({ state }: Finding): boolean => state === "ok";
  const hides = goOn === "one" && (await tryRoles({ ...parts, target: onlyOneRole(target) })).some(works);
  const protocol = await protocolFindings(target, secrets, Date.now());
  if (goOn !== "yes" && !hides) {
    const broken = await unreadable(target, secrets);
    return [
      ...sectionOf("Connection", [found, ...protocol.filter((one) => one.name === "TLS" && !works(one))]),
      ...sectionOf("Roles", [...broken, finding("skipped", "roles", "not tried: the API was not found")]),
    ];
  }
  const roles = await tryRoles(parts);
  const serverWorks = roles.some((one) => one.name === "server" && works(one));
  const connection = [
    hides ? finding("ok", "base_url", `${target.base_url} answers those who have a key`) : found,
    ...protocol,
    await latencyFinding(target, calls, serverWorks),
    clockFinding(calls.answers),
    echoFinding(calls.answers),
  ];
  const admins = await tryAdmins(target, calls);
  const others = await lookAtOthers(target, calls);
  const streams = await streamFindings(file, parts, roles);
  const broken = await unreadable({ ...target, credentials: {} }, secrets);
  const tenants = broken.length === 0 ? await tryTenants(target, calls) : [];
  return [
    ...sectionOf("Connection", connection),
    ...sectionOf("Roles", [...roles, ...admins]),
    ...sectionOf("Streams", streams),
    ...sectionOf("Tenants", [...broken, ...tenants]),
    ...sectionOf("Other addresses of the file", others),
  ];
};

export type TargetDiagnosis = Awaited<ReturnType<typeof diagnoseTarget>>;

/** Throws `TargetFileError` and `TargetBusyError`; all else is a finding. `judgesOf`: what those who judge a run find in a target file. */
export const diagnoseTarget = async (
  file: string,
  owned: readonly string[],
  judgesOf: (target: Target) => readonly Finding[] = () => [],
) => {
  const { target, folder, warnings } = await readTargetFile(file);
  const budget = createBudget(target, false);
  const fileFindings = [
    finding("ok", "file", `${file} can be read`),
    ...warnings.map((text) => finding("warn", "file", text)),
    ...judgesOf(target),
  ];
  const title = `Target ${target.name ?? target.base_url}`;
  const guard = await guardTarget(target, owned, { load: false, faults: false, requests: CALLS_MAX });
  /** `refusedByGuard`: reasons of the safety guard; empty where it lets the calls through. */
  const diagnosis = (sections: readonly Section[], refusedByGuard: readonly string[] = []) => {
    return { sections, refusedByGuard, spent: budget.spent };
  };
  if (!guard.ok) return diagnosis([{ title, findings: fileFindings }], guard.reasons);
  /** `more`: what the file says about connecting leads nowhere, so no call is made. */
  const diagnosed = (asked: readonly Section[], more: readonly Finding[] = []) =>
    diagnosis([
      { title, findings: [...fileFindings, ...more] },
      ...asked,
      ...sectionOf("What verify would do", verifyFindings(target)),
      ...sectionOf("Scenarios", [...scenarioFindings(target), faultFinding(target)]),
    ]);
  const secrets = createSecrets(folder);
  const lock = lockTarget(target.base_url);
  const forget = beforeSignalEnds(lock.release);
  try {
    const wrong = wrongTlsFile(await tlsFiles(target.transport ?? {}, secrets));
    if (wrong !== null) return diagnosed([], [finding("wrong", "transport", wrong)]);
    const calls = await openSingleCalls({ target, secrets, budget });
    try {
      return diagnosed(await askDeployment(file, { target, folder, secrets, calls, budget }));
    } finally {
      await calls.close();
    }
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    return diagnosed([], [finding("wrong", "transport", error.message)]);
  } finally {
    forget();
    lock.release();
  }
};
