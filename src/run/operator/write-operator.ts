/**
 * `load --operator DIR`: writes what the k6-operator needs to run a scenario in several runners of a cluster, and sends
 * nothing. No file holds a credential: the runners get them from a Secret that the user makes. The manifests follow the
 * custom resource definition `k6.io/v1alpha1` TestRun (k6-operator v1.6.0, config/crd/bases/k6.io_testruns.yaml); scalars
 * are written as JSON, which is valid YAML.
 */
import { mkdtempDisposableSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isLoopbackHost, parseHttpUrl } from "../../contract/address.ts";
import { exitProblem, startK6 } from "../../drivers/k6/k6-process.ts";
import { scenarioOf } from "../../stages/play.ts";
import { intentOf, type LoadStage, prepareTarget } from "../../stages/stage-plan.ts";
import { beforeSignalEnds } from "../../supervision/stop-signals.ts";
import { atPlace, makeFolders, UsageError } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import { findTool } from "../../tools/find-tool.ts";
import { keysFor, viewOf } from "../../workload/callers/view-of-target.ts";
import { storyCalled } from "../../workload/catalogue.ts";
import { PLACEHOLDER } from "../../workload/handover.ts";
import type { Story } from "../../workload/story.ts";

const variableOf = (what: string): string =>
  `FLOODGATE_${what
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase()}`;

/** Members of `transport` that k6 takes from its own process, so that no variable can set them. */
const NOT_HANDED = ["ca", "cert", "key", "proxy"] as const;

/** Target file fields copied as they are: they hold no secret, and k6 uses them. */
const STATED = [
  ...(["schema", "name", "base_url", "key_management_url", "tile_url", "stream_end", "shedding", "exclusive"] as const),
  ...(["limits", "permits", "budget", "stop_when"] as const),
];

/** `stated`: the target with an `env:` reference for each secret; `wanted`: the variables that the story needs. */
export const withoutSecrets = (target: Target, story: Story, seed: number) => {
  const names = new Map<string, string>();
  const reference = (what: string): string => {
    const taken = new Set(names.values());
    let variable = variableOf(what);
    while (taken.has(variable)) variable += "_";
    names.set(what, variable);
    return `env:${variable}`;
  };
  /** Replaces each member whose name matches `secret`, at any depth, by a reference. */
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

const ARCHIVE = "archive.tar";
const IMAGE = "floodgate-k6:local";
const NOT_RUN = "# Written by floodgate load --operator. It has not been run on a cluster.";

type Cluster = Record<"name" | "secret" | "k6Version", string> & {
  parallelism: number;
  /** The environment variables, which are the Secret's keys too, and each value's place in the target file. */
  wanted: readonly { variable: string; what: string }[];
  notes: readonly string[];
};

/** Returns the files by their names. `archive` is `null` if a ConfigMap cannot hold it. */
const manifestsOf = ({ name, secret, k6Version, parallelism, wanted, notes }: Cluster, archive: Buffer | null) => ({
  "testrun.yaml": `${NOT_RUN}
apiVersion: k6.io/v1alpha1
kind: TestRun
metadata:
  name: ${JSON.stringify(name)}
spec:
  # Runners; each has its part of the schedule and of the budget, which are in the archive.
  parallelism: ${parallelism}
  script:
    configMap:
      name: ${JSON.stringify(name)}
      file: ${JSON.stringify(ARCHIVE)}
  # Looks into the archive only, so it is given no secrets.
  initializer:
    image: ${JSON.stringify(IMAGE)}
  runner:
    image: ${JSON.stringify(IMAGE)}
    env:
      # From here on a missing secret is an error.
      - name: FLOODGATE_ARCHIVING
        value: "no"
      # Every call as a line of the runner's log, for floodgate report --merge.
      - name: PART
        value: /dev/stdout
    envFrom:
      - secretRef:
          name: ${JSON.stringify(secret)}
`,
  ...(archive && {
    "configmap.yaml": `${NOT_RUN}
apiVersion: v1
kind: ConfigMap
metadata:
  name: ${JSON.stringify(name)}
binaryData:
  ${ARCHIVE}: ${JSON.stringify(archive.toString("base64"))}
`,
  }),
  "secret.env": wanted.map(({ variable, what }) => `# ${what}\n${variable}=\n`).join(""),
  Dockerfile: `${NOT_RUN}
# k6 ${k6Version} with k6/x/sse as floodgate builds it: put the Linux binary (.tools/k6) beside this file.
FROM grafana/k6:${k6Version}
COPY k6 /usr/bin/k6
`,
  "README.md": `# ${name}, by the k6-operator

It has not been run on a cluster. The fields are those of the k6-operator v1.6.0.

1. Image: \`cp .tools/k6 .\` beside the Dockerfile, then \`docker build -t ${IMAGE} .\` and push it where the cluster finds it.
2. Secret: fill in a copy of \`secret.env\` outside of any repository, then
   \`kubectl create secret generic ${secret} --from-env-file=FILE\`.
3. \`kubectl apply --server-side -f configmap.yaml\` (its archive is too long for the annotation of a client-side apply).
4. \`kubectl create -f testrun.yaml\`; to run it again, \`kubectl delete testrun ${name}\` first.
5. When it is over, one file a runner, then one verdict:
   \`for pod in $(kubectl get pods -l k6_cr=${name},runner=true -o name); do kubectl logs $pod > $(basename $pod).part; done\`
   \`npx floodgate report --merge *.part\`

| file | |
| --- | --- |
| testrun.yaml | the TestRun: ${parallelism} runners |
| configmap.yaml | the archive, as the runners get it |
| ${ARCHIVE} | the same, made by \`k6 archive\`: the scenario and the target file without its secrets |
| secret.env | names of the variables that hold the secrets, without values |
| Dockerfile | the image of the runners |

Know before you rely on it:

${notes.map((note) => `- ${note}`).join("\n")}
- Each runner keeps to an equal part of budget and highest rate, so all together never pass them; stop_when ends a runner by
  the errors that it sees itself.
- Each runner has its own summary, its own thresholds and its own sessions; the operator adds nothing up, and shows a run as
  finished even where runners failed. \`report --merge\` does: a part that is missing, or broke off, makes it inconclusive.
`,
});

type OperatorWish = Record<"targetFile" | "folder", string> &
  Record<"seed" | "parallelism", number> & {
    stage: LoadStage;
    owned: readonly string[];
    progress(line: string): void;
  };

/** The largest archive for one ConfigMap, of which Kubernetes allows 1 MiB in all. */
const CONFIG_MAP_BYTES = 1_000_000;
const ARCHIVE_MS = 120_000;

/** `variables` hold no secret, because they stand in the archive and in k6's arguments. */
const archiveBy = async (k6: string, script: string, out: string, variables: Record<string, string>): Promise<void> => {
  using home = mkdtempDisposableSync(join(tmpdir(), "floodgate-archive-"));
  using atEnd = new DisposableStack();
  atEnd.defer(beforeSignalEnds(home.remove));
  const given = Object.entries(variables).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  const { exited, due } = startK6(k6, ["archive", "--log-format=json", "-O", out, ...given, script], {}, home.path);
  due(ARCHIVE_MS, "write its archive");
  const problem = exitProblem(await exited);
  if (problem !== null) throw new UsageError(`k6 archive failed: ${problem.reason}`);
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

/** Writes the files. Throws `UsageError`, `TargetFileError`, `GuardError` and `ToolError`. */
export const writeOperator = async (wish: OperatorWish) => {
  const { stage, targetFile, owned, parallelism } = wish;
  const story = storyCalled(stage.story);
  const { target } = await prepareTarget(targetFile, owned, intentOf({ stages: () => [stage], short: false }));
  const unable = NOT_HANDED.filter((name) => target.transport?.[name] !== undefined);
  if (unable.length > 0) {
    throw new UsageError(
      `${unable.map((name) => `transport.${name}`).join(", ")}: a runner takes these from its own image or environment, which --operator does not set up; leave them out and add them to testrun.yaml`,
    );
  }
  const seed = Math.max(1, wish.seed);
  const { stated, wanted } = withoutSecrets(target, story, seed);
  const { path: k6, version } = await findTool("k6", { progress: wish.progress });
  const folder = resolve(wish.folder);
  atPlace(`--operator ${wish.folder}`, () => makeFolders(folder));
  if ((await readdir(folder)).length > 0)
    throw new UsageError(`expected an empty folder, but ${folder} has files in it`);
  const out = join(folder, ARCHIVE);
  await archiveBy(k6, scenarioOf(story.name), out, {
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
  const isSmall = archive.length * 1.34 < CONFIG_MAP_BYTES;
  const large = `${ARCHIVE} has ${archive.length} bytes, too many for a ConfigMap: put it on a volume (script.volumeClaim)`;
  const warnings = [...warningsOf(target, parallelism), ...(isSmall ? [] : [large])];
  const name = `floodgate-${story.name}`;
  const secret = `${name}-target`;
  const cluster = { name, secret, k6Version: version, parallelism, wanted, notes: warnings };
  const texts = manifestsOf(cluster, isSmall ? archive : null);
  for (const [file, text] of Object.entries(texts)) await writeFile(join(folder, file), text);
  const files = [ARCHIVE, ...Object.keys(texts)].map((file) => join(folder, file));
  return { files, secret, warnings };
};
