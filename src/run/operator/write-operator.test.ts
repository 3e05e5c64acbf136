import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { parse } from "yaml";
import { type StubApi, startStubApi } from "../../client/stub-api.fixture.ts";
import { startK6 } from "../../drivers/k6/k6-process.ts";
import { REPOSITORY } from "../../supervision/run-folder.ts";
import type { Target } from "../../target/target.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { scenarioStage } from "../suites/suites.ts";
import { withoutSecrets, writeOperator } from "./write-operator.ts";

const binary = join(REPOSITORY, ".tools/k6");
const STORY = STORIES.get("catalog-reads")!;
const KEY = "svc_sk_live_nobodymaysee";

let folder: string;
let stub: StubApi;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-operator-"));
  stub = await startStubApi();
});
afterEach(async () => {
  await stub.close();
  await rm(folder, { recursive: true, force: true });
});

const targetOf = (more: Partial<Target> = {}): Target =>
  stub.target({
    tenants: [0, 1].map((k) => ({ org: `org_t${k}`, tier: "Pro" as const, server: { key: `${KEY}${k}` } })),
    transport: { headers: { "x-canary": "a-header-nobody-may-see" } },
    budget: { requests: 41 },
    permits: { load_max_rps: 100 },
    ...more,
  });

const write = async (more: Partial<Target> = {}, scenario = "catalog-reads") => {
  await writeFile(join(folder, "target.json"), JSON.stringify(targetOf(more)));
  const stage = scenarioStage(scenario, { ratePerS: 50, durationS: 2 })!;
  return writeOperator({
    stage,
    targetFile: join(folder, "target.json"),
    owned: [],
    seed: 7,
    parallelism: 2,
    folder: join(folder, "out"),
    progress: () => undefined,
  });
};
const CONTAINER = [
  ...["affinity", "automountServiceAccountToken", "containerSecurityContext", "disabled", "image", "imagePullPolicy"],
  ...["imagePullSecrets", "initContainers", "livenessProbe", "metadata", "nodeSelector", "priorityClassName"],
  ...["readinessProbe", "resources", "schedulerName", "securityContext", "serviceAccountName", "tolerations"],
  ...["topologySpreadConstraints", "volumeMounts", "volumes"],
];
type Fields = { readonly [name: string]: Fields | true };
const named = (names: readonly string[], more: Fields = {}): Fields => ({
  ...Object.fromEntries(names.map((name): [string, true] => [name, true])),
  ...more,
});
const container = named(CONTAINER, {
  env: named(["name", "value", "valueFrom"]),
  envFrom: named(["configMapRef", "prefix"], { secretRef: named(["name", "optional"]) }),
});
/** Names of `spec` in config/crd/bases/k6.io_testruns.yaml of the k6-operator, v1.6.0, as far as manifests of ours go. */
const DEFINED = named(
  [
    ...["args", "arguments", "cleanup", "parallelism", "paused", "ports", "quiet", "scuttle", "separate", "starter"],
    ...["testRunId", "token"],
  ],
  {
    initializer: container,
    runner: container,
    script: named(["localFile", "volumeClaim"], { configMap: named(["file", "name"]) }),
  },
);

const unknownFields = (value: unknown, fields: Fields | true, at = "spec"): string[] => {
  if (Array.isArray(value)) return value.flatMap((one) => unknownFields(one, fields, at));
  if (typeof value !== "object" || value === null || fields === true) return [];
  return Object.entries(value).flatMap(([name, member]) => {
    const of = fields[name];
    return of === undefined ? [`${at}.${name}`] : unknownFields(member, of, `${at}.${name}`);
  });
};

const text = (name: string): string => readFileSync(join(folder, "out", name), "utf8");

/** What a runner does in the cluster, for one of two. */
const runSegment = async (secrets: Record<string, string>) => {
  const segment = ["--execution-segment=0:1/2", "--execution-segment-sequence=0,1/2,1"];
  const args = ["run", "--quiet", "--log-format=json", ...segment, join(folder, "out/archive.tar")];
  return startK6(binary, args, { FLOODGATE_ARCHIVING: "no", ...secrets }, folder).exited;
};

describe.skipIf(!existsSync(binary))("load --operator", () => {
  test("writes a TestRun, its archive and the names of the secrets, and sends nothing", async () => {
    const { files, secret, warnings } = await write();
    expect(stub.asked).toEqual([]);
    expect(files.map((file) => file.split("/").at(-1)).sort()).toEqual(readdirSync(join(folder, "out")).sort());
    const run = parse(text("testrun.yaml"));
    const map = parse(text("configmap.yaml"));
    expect(run).toMatchObject({ apiVersion: "k6.io/v1alpha1", kind: "TestRun" });
    // An unknown field would be dropped in silence.
    expect(unknownFields(run.spec, DEFINED)).toEqual([]);
    expect(run.spec.parallelism).toBe(2);
    expect(run.spec.script.configMap).toEqual({ name: map.metadata.name, file: "archive.tar" });
    expect(run.spec.runner.envFrom).toEqual([{ secretRef: { name: secret } }]);
    expect(run.spec.initializer).toEqual({ image: run.spec.runner.image });
    expect(Buffer.from(map.binaryData["archive.tar"], "base64").equals(readFileSync(files[0] as string))).toBe(true);
    expect(text("testrun.yaml")).toContain("not been run on a cluster");
    expect(warnings.join()).toContain("127.0.0.1");
  });

  test("no file has a credential, and the archive is a whole script", async () => {
    await write();
    for (const name of readdirSync(join(folder, "out"))) {
      const bytes = readFileSync(join(folder, "out", name), "latin1");
      for (const secret of ["nobodymaysee", "nobody-may-see", "svc_sk_live_role", "svc_pk_live_role"]) {
        expect(bytes.includes(secret), `${name}: ${secret}`).toBe(false);
      }
    }
    // As the operator's initializer looks at it: without the Secret.
    const looked = spawnSync(binary, ["inspect", "--execution-requirements", join(folder, "out/archive.tar")], {
      env: { HOME: folder },
      encoding: "utf8",
    });
    expect(JSON.parse(looked.stdout)).toMatchObject({ scenarios: { catalog_reads: { iterations: 100 } } });
  });

  test("a runner with the Secret makes its part of the calls inside its part of the budget", async () => {
    await write();
    const wanted = text("secret.env")
      .split("\n")
      .filter((line) => line.endsWith("="))
      .map((line) => line.slice(0, -1));
    expect(wanted).toHaveLength(3);
    const secrets = Object.fromEntries(wanted.map((name) => [name, `svc_sk_live_of_${name.toLowerCase()}`]));
    await runSegment(secrets);
    // 50 calls are its half; 20 are half of the budget.
    expect(stub.asked).toHaveLength(20);
    const sent = new Set(stub.asked.map(({ headers }) => String(headers.authorization ?? headers["x-api-key"])));
    for (const value of sent) expect(value).toMatch(/svc_sk_live_of_floodgate_tenants_org_t[01]_server_key$/);
    expect(stub.asked[0]?.headers["x-canary"]).toContain("x_canary");
  });

  test("a runner without the Secret sends nothing and says what it lacks", async () => {
    await write();
    const { code, errors } = await runSegment({});
    expect(code).not.toBe(0);
    expect(errors.join()).toMatch(/FLOODGATE_TENANTS_ORG_T0_SERVER_KEY; the Secret of this run does not have it/);
    expect(stub.asked).toEqual([]);
  });

  test("what cannot be handed over, or is in the way, is refused before anything is written", async () => {
    await expect(write({ transport: { ca: "file:ca.pem" } })).rejects.toThrow(/transport\.ca/);
    await expect(write({ tenants: [], credentials: {} }, "noisy-neighbour")).rejects.toThrow();
    expect(existsSync(join(folder, "out/archive.tar"))).toBe(false);
    await rm(join(folder, "out"), { recursive: true, force: true });
    await write();
    await expect(write()).rejects.toThrow(/expected an empty folder/);
  });

  test("names that differ in punctuation alone stay apart", () => {
    const tenants = ["org-a", "org_a"].map((org) => ({ org, server: { key: KEY } }));
    const { wanted } = withoutSecrets(targetOf({ tenants }), STORY, 1);
    expect(new Set(wanted.map(({ variable }) => variable)).size).toBe(wanted.length);
    expect(JSON.stringify(withoutSecrets(targetOf({ tenants }), STORY, 1).stated)).not.toContain("svc_");
  });
});
