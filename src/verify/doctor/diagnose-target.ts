/** `doctor --target`: checks a target file and its deployment by single calls, within what the file permits. */
import { tlsFiles, wrongTlsFile } from "../../client/transport.ts";
import { beforeSignalEnds } from "../../supervision/stop-signals.ts";
import { createSecrets, isReference, SecretError, type Secrets } from "../../target/secrets.ts";
import { credentialsOf } from "../../target/stated-credentials.ts";
import type { Target } from "../../target/target.ts";
import { guardTarget, lockTarget, readTargetFile } from "../../target/target-file.ts";
import { type Budget, createBudget } from "../planning/needs.ts";
import * as connecting from "./connection.ts";
import { addressFinding } from "./find-base-url.ts";
import { type Finding, finding, okIf, type Section } from "./finding.ts";
import { tryAdmins, tryRoles, tryTenants } from "./role-trials.ts";
import { CALLS_MAX, openSingleCalls, type SingleCalls, titleOf, tried } from "./single-calls.ts";
import { findStreamEnds, writeStreamEnds } from "./stream-ends.ts";
import { faultFinding, scenarioFindings, verifyFindings } from "./what-would-run.ts";

/** Findings about credential references that cannot be read. */
const unreadable = async (target: Target, secrets: Secrets): Promise<Finding[]> => {
  const references = credentialsOf(target).filter(({ ref }) => isReference(ref));
  const findings = await Array.fromAsync(references, (one) =>
    tried(titleOf(one), one.where, () => secrets.read(one.ref, one.where).then(() => [])),
  );
  return findings.flat();
};

type Parts = { target: Target; folder: string; secrets: Secrets; calls: SingleCalls; budget: Budget };

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
  // One role is enough to see whether the deployment hides its API from calls without a key.
  const credentials = Object.fromEntries(Object.entries(target.credentials ?? {}).slice(0, 1));
  const hides = goOn === "one" && (await tryRoles({ ...parts, target: { ...target, credentials } })).some(works);
  const protocol = await connecting.protocolFindings(target, secrets, Date.now());
  if (goOn !== "yes" && !hides) {
    const broken = await unreadable(target, secrets);
    return [
      { title: "Connection", findings: [found, ...protocol.filter((one) => one.name === "TLS" && !works(one))] },
      { title: "Roles", findings: [...broken, finding("skipped", "roles", "not tried: the API was not found")] },
    ];
  }
  const roles = await tryRoles(parts);
  const serverWorks = roles.some((one) => one.name === "server" && works(one));
  const connection = [
    hides ? finding("ok", "base_url", `${target.base_url} answers those who have a key`) : found,
    ...protocol,
    await connecting.latencyFinding(target, calls, serverWorks),
    connecting.clockFinding(calls.answers),
    connecting.echoFinding(calls.answers),
    ...connecting.otherWayFinding(calls.answers),
  ];
  const admins = await tryAdmins(target, calls);
  const others = await connecting.lookAtOthers(target, calls);
  const streams = await streamFindings(file, parts, roles);
  const broken = await unreadable({ ...target, credentials: {} }, secrets);
  const tenants = broken.length === 0 ? await tryTenants(target, calls) : broken;
  return [
    { title: "Connection", findings: connection },
    { title: "Roles", findings: [...roles, ...admins] },
    { title: "Streams", findings: streams },
    { title: "Tenants", findings: tenants },
    { title: "Other addresses of the file", findings: others },
  ];
};

export type TargetDiagnosis = Awaited<ReturnType<typeof diagnoseTarget>>;

/** Throws `TargetFileError` and `TargetBusyError`; all else is a finding. `judgesOf`: findings of a run's judges. */
export const diagnoseTarget = async (
  file: string,
  owned: readonly string[],
  judgesOf: (target: Target) => readonly Finding[] = () => [],
) => {
  const { target, folder, warnings } = await readTargetFile(file);
  const budget = createBudget(target, false);
  const about = [
    finding("ok", "file", `${file} can be read`),
    ...warnings.map((text) => finding("warn", "file", text)),
    ...judgesOf(target),
  ];
  const title = `Target ${target.name ?? target.base_url}`;
  /** Why the safety guard refuses the calls; empty if it permits them. */
  const refusedByGuard = await guardTarget(target, owned, { load: false, faults: false, requests: CALLS_MAX });
  if (refusedByGuard.length > 0)
    return { sections: [{ title, findings: about }] as Section[], refusedByGuard, spent: budget.spent };
  const secrets = createSecrets(folder);
  const lock = lockTarget(target.base_url);
  const forget = beforeSignalEnds(lock.release);
  const asked: Section[] = [];
  try {
    const wrong = wrongTlsFile(await tlsFiles(target.transport ?? {}, secrets));
    if (wrong !== null) about.push(finding("wrong", "transport", wrong));
    else {
      const calls = await openSingleCalls({ target, secrets, budget });
      asked.push(...(await askDeployment(file, { target, folder, secrets, calls, budget }).finally(calls.close)));
    }
  } catch (error) {
    // A secret of the connection settings cannot be read, so no call is made.
    if (!(error instanceof SecretError)) throw error;
    about.push(finding("wrong", "transport", error.message));
  } finally {
    forget();
    lock.release();
  }
  const all = [
    { title, findings: about },
    ...asked,
    { title: "What verify would do", findings: verifyFindings(target) },
    { title: "Scenarios", findings: [...scenarioFindings(target), faultFinding(target)] },
  ];
  return { sections: all.filter(({ findings }) => findings.length > 0), refusedByGuard, spent: budget.spent };
};
