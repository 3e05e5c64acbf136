/**
 * `load --operator DIR`: writes what the k6-operator needs to run a scenario in several runners of a cluster, and sends
 * nothing. No credential stands in any file: the runners get them from a Secret that the user makes.
 */

import { execFile } from "node:child_process";
import { rmSync } from "node:fs";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { parseHttpUrl } from "../../contract/address.ts";
import { isLoopbackHost } from "../../contract/loopback.ts";
import { prepareTarget } from "../../stages/prepare-target.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { intentOf } from "../../stages/stages-for.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { beforeSignalEnds } from "../../supervision/stop-signals.ts";
import { makeFolders } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import { findTool } from "../../tools/find-tool.ts";
import { keysFor, viewOf } from "../../workload/callers/view-of-target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { PLACEHOLDER } from "../../workload/handover.ts";
import type { Story } from "../../workload/story.ts";
import { atPlace, UsageError } from "../exit-codes.ts";
import { ARCHIVE, manifestsOf, type OperatorRun, secretName } from "./manifests.ts";

const variableOf = (what: string): string =>
  `FLOODGATE_${what
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase()}`;

/** What k6 takes from its own process and no variable can set. */
const cannotBeHanded = ({ transport }: Pick<Target, "transport">): string[] =>
  (["ca", "cert", "key", "proxy"] as const).flatMap((name) =>
    transport?.[name] === undefined || transport[name] === null ? [] : [`transport.${name}`],
  );

/** Fields without references; what only the runner acts on is left out. */
const STATED = [
  ...(["schema", "name", "base_url", "key_management_url", "tile_url", "stream_end", "shedding", "exclusive"] as const),
  ...(["limits", "permits", "budget", "stop_when"] as const),
];

/** `stated`: the target with `env:` references alone; `wanted`: the variables that the story needs. */
export const withoutSecrets = (target: Target, story: Story, seed: number) => {
  const names = new Map<string, string>();
  const reference = (what: string): string => {
    const taken = new Set(names.values());
    let variable = variableOf(what);
    while (taken.has(variable)) variable += "_";
    names.set(what, variable);
    return `env:${variable}`;
  };
  /** With a reference in place of each member of these names, at any depth. */
  const referring = (value: unknown, what: string, secret = /^(?:key|token)$/): unknown => {
    if (typeof value !== "object" || value === null) return value;
    const entries = Object.entries(value).map(([name, one]) => {
      const whole = `${what}.${name}`;
      return [name, secret.test(name) ? reference(whole) : referring(one, whole)];
    });
    return Object.fromEntries(entries);
  };
  const { tenants, credentials, transport } = target;
  const stated = {
    ...Object.fromEntries(STATED.map((field) => [field, target[field]])),
    tenants: tenants?.map((tenant) => referring(tenant, `tenants (${tenant.org})`)),
    credentials: referring(credentials, "credentials"),
    transport: transport?.headers && { headers: referring(transport.headers, "transport.headers", /^/) },
  };
  const plain = JSON.parse(JSON.stringify(stated)) as Partial<Target>;
  const keys = keysFor(story, seed, viewOf(target), plain).map(({ what }) => what);
  const headers = [...names.keys()].filter((what) => what.startsWith("transport.headers."));
  const wanted = [...keys, ...headers].map((what) => ({ what, variable: names.get(what) ?? variableOf(what) }));
  return { stated: plain, wanted };
};

type OperatorWish = {
  stage: LoadStage;
  targetFile: string;
  owned: readonly string[];
  seed: number;
  parallelism: number;
  folder: string;
  progress(line: string): void;
};

const IMAGE = "floodgate-k6:local";
/** What Kubernetes takes of one ConfigMap, with room for its names. */
const CONFIG_MAP_BYTES = 1_000_000;
const ARCHIVE_MS = 120_000;

const emptyFolder = async (folder: string): Promise<string> => {
  const path = resolve(folder);
  atPlace(`--operator ${folder}`, () => makeFolders(path));
  if ((await readdir(path)).length > 0) throw new UsageError(`expected an empty folder, but ${path} has files in it`);
  return path;
};

const sentenceOf = (stderr: string): string => {
  const said = stderr.split("\n").flatMap((line) => {
    try {
      return [(JSON.parse(line) as { msg?: string }).msg ?? ""];
    } catch {
      return line.trim() === "" ? [] : [line];
    }
  });
  return (said.find((line) => line.trim() !== "") ?? "it said nothing").split("\n")[0] as string;
};

/** `variables` stand in the archive, and in k6's arguments: nothing secret is among them. */
const archiveBy = async (k6: string, script: string, out: string, variables: Record<string, string>): Promise<void> => {
  const home = await mkdtemp(join(tmpdir(), "floodgate-archive-"));
  const forget = beforeSignalEnds(() => rmSync(home, { recursive: true, force: true }));
  const given = Object.entries(variables).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  try {
    await promisify(execFile)(k6, ["archive", "--log-format=json", "-O", out, ...given, script], {
      cwd: home,
      timeout: ARCHIVE_MS,
      env: { HOME: home, K6_NO_USAGE_REPORT: "true", K6_AUTO_EXTENSION_RESOLUTION: "false" },
    });
  } catch (error) {
    throw new UsageError(`k6 archive failed: ${sentenceOf((error as { stderr?: string }).stderr ?? String(error))}`);
  } finally {
    forget();
    await rm(home, { recursive: true, force: true });
  }
};

const warningsOf = ({ base_url, budget, permits }: Target, parallelism: number): string[] => {
  const { host } = parseHttpUrl(base_url);
  const small = Object.entries(budget ?? {}).filter(([, most]) => most > 0 && most < parallelism);
  const isUnbounded = permits?.load_max_rps === undefined || budget?.requests === undefined;
  const said = [
    isLoopbackHost(host) && `base_url is on ${host}: a runner in a cluster finds itself there, not your deployment`,
    isUnbounded && "the target file leaves requests or rate unbounded: state budget.requests and permits.load_max_rps",
    ...small.map(([unit, most]) => `budget.${unit} (${most}) is less than one for each of ${parallelism} runners`),
  ];
  return said.filter((one) => one !== false);
};

/** Throws `UsageError`, `TargetFileError`, `GuardError` and `ToolError`, each with what to do. */
export const writeOperator = async (wish: OperatorWish) => {
  const { stage, targetFile, owned, parallelism } = wish;
  const story = STORIES.get(stage.story);
  if (story === undefined) throw new UsageError(`there is no scenario "${stage.story}"`);
  const { target } = await prepareTarget(targetFile, owned, intentOf({ stages: () => [stage], short: false }));
  const unable = cannotBeHanded(target);
  if (unable.length > 0) {
    throw new UsageError(
      `${unable.join(", ")}: a runner takes these from its own image or environment, which --operator does not set up; leave them out and add them to testrun.yaml`,
    );
  }
  const seed = Math.max(1, wish.seed);
  const { stated, wanted } = withoutSecrets(target, story, seed);
  const { path: k6, version } = await findTool("k6", { progress: wish.progress });
  const folder = await emptyFolder(wish.folder);
  const out = join(folder, ARCHIVE);
  await archiveBy(k6, join(REPOSITORY, "scenarios", `${story.name}.ts`), out, {
    FLOODGATE_TARGET_JSON: JSON.stringify(stated),
    FLOODGATE_ARCHIVING: "yes",
    SEGMENTS: `${parallelism}`,
    SEED: `${seed}`,
    ...(stage.ratePerS && { RATE: `${stage.ratePerS}` }),
    ...(stage.arrivals && { ARRIVALS: stage.arrivals }),
    ...(stage.durationS && { DURATION: `${stage.durationS}s` }),
    ...(owned.length > 0 && { I_OWN: owned.join(",") }),
    ...Object.fromEntries(wanted.map(({ variable }) => [variable, PLACEHOLDER])),
  });
  const archive = await readFile(out);
  const warnings = warningsOf(target, parallelism);
  const isSmall = archive.length * 1.34 < CONFIG_MAP_BYTES;
  if (!isSmall) {
    warnings.push(
      `${ARCHIVE} has ${archive.length} bytes, too many for a ConfigMap: put it on a volume (script.volumeClaim)`,
    );
  }
  const name = `floodgate-${story.name}`;
  const run: OperatorRun = { name, parallelism, image: IMAGE, k6Version: version, wanted, notes: warnings };
  const texts = manifestsOf(run, isSmall ? archive : null);
  for (const [name, text] of Object.entries(texts)) await writeFile(join(folder, name), text);
  const files = [ARCHIVE, ...Object.keys(texts)].map((file) => join(folder, file));
  return { files, secret: secretName(run), warnings };
};
