/**
 * docker-compose.yml cannot be run where there is no container engine. So its form is checked against the schema of the
 * Compose Specification, its promises one by one (what is published, who reaches whom, what is hardened), and its commands
 * are run as plain processes, each name in them resolved as the file's networks resolve it.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DCLinter } from "dclint";
import { describe, expect, test } from "vitest";
import { COMPOSE_PATH, composeText, optionOf, ROOT, readCompose, resolveName } from "./rigs/compose-file.ts";

const SECRETS = { FLOODGATE_SESSION_SECRET: "session-secret", FLOODGATE_ADMIN_SECRET: "admin-secret" };
const file = readCompose(SECRETS);
const services = Object.entries(file.services);
const roleOf = (name: string): string | undefined => optionOf(file.services[name] ?? {}, "role");
const rolesOf = (role: string): string[] => services.map(([name]) => name).filter((name) => roleOf(name) === role);

/** What the schema and the linter's rules of substance find; rules about the order of keys are left out. */
const findings = (path: string): string[] => {
  const linter = new DCLinter({
    rules: {
      "no-duplicate-container-names": 2,
      "no-duplicate-exported-ports": 2,
      "no-unbound-port-interfaces": 2,
      "no-version-field": 2,
      "require-project-name-field": 2,
    },
    quiet: true,
    debug: false,
    exclude: [],
  });
  // The linter's own types do not resolve under Node's rules.
  const results: { messages: { rule: string; line: number; message: string }[] }[] = linter.lintFiles([path], false);
  const substance = (rule: string): boolean => !/order|quotes|build-and-image|explicit-tag|name-regex/.test(rule);
  return results
    .flatMap(({ messages }) => messages)
    .filter(({ rule }) => substance(rule))
    .map(({ rule, line, message }) => `${line} ${rule}: ${message}`);
};

const composePlugin = spawnSync("docker", ["compose", "version"], { stdio: "ignore" }).status === 0;
if (!composePlugin) process.stderr.write("SKIPPED: no `docker compose`; the file is judged by its schema alone\n");

describe("docker-compose.yml", () => {
  test("is a file of the Compose Specification", () => {
    expect(findings(COMPOSE_PATH)).toEqual([]);
  });

  test.each([
    ["an unknown field", "read_only: true", "read_onlyy: true"],
    ["a word that it does not know", "pull_policy: build", "pull_policy: sometimes"],
    ["a port for everybody", '- "127.0.0.1:', '- "'],
  ])("and the check bites: %s", (_what, right, wrong) => {
    const folder = mkdtempSync(join(tmpdir(), "floodgate-compose-"));
    try {
      const path = join(folder, "docker-compose.yml");
      expect(composeText()).toContain(right);
      writeFileSync(path, composeText().replace(right, wrong));
      expect(findings(path)).not.toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.skipIf(!composePlugin).each(["limiter", "redis"])("is taken by docker compose itself, profile %s", (profile) => {
    const asked = spawnSync("docker", ["compose", "--file", COMPOSE_PATH, "--profile", profile, "config", "--quiet"], {
      env: { ...process.env, ...SECRETS },
      encoding: "utf8",
    });
    expect([asked.status, asked.stderr]).toEqual([0, ""]);
  });

  test("does not start without the secrets that replicas share, and has none of its own", () => {
    for (const missing of Object.keys(SECRETS)) {
      expect(() => readCompose({ ...SECRETS, [missing]: "" })).toThrow(`expected ${missing} to be set`);
    }
    const given = rolesOf("api").map((name) => file.services[name]?.environment);
    expect(given).toEqual([SECRETS, SECRETS]);
  });

  test("publishes the API's port, on loopback, and nothing else", () => {
    expect(services.flatMap(([name, { ports = [] }]) => ports.map((port) => `${name} ${port}`))).toEqual([
      "toxiproxy 127.0.0.1:8080:8080",
    ]);
    const open = Object.entries(file.networks).filter(([, network]) => network?.internal !== true);
    expect(open.map(([name]) => name)).toEqual(["front"]);
    expect(services.filter(([, { networks = {} }]) => "front" in networks).map(([name]) => name)).toEqual([
      "toxiproxy",
    ]);
  });

  test("has two replicas that differ in their names alone", () => {
    const [first, second] = rolesOf("api").map((name) => ({ ...file.services[name], networks: null }));
    expect(rolesOf("api")).toHaveLength(2);
    expect(first).toEqual(second);
  });

  test.each(["limiter", "redis"])(
    "a replica reaches its dependencies through toxiproxy only, profile %s",
    (profile) => {
      for (const api of rolesOf("api")) {
        expect(resolveName(file, api, "keys-link", profile)).toEqual(["toxiproxy"]);
        expect(resolveName(file, api, "limiter-link", profile)).toEqual(["toxiproxy"]);
        for (const past of ["keys-service", "limiter-service", "redis"]) {
          expect(resolveName(file, api, past, profile)).toEqual([]);
        }
      }
      expect(resolveName(file, "toxiproxy", "keys-service", profile)).toEqual(["keys"]);
      expect(resolveName(file, "toxiproxy", "limiter-service", profile)).toEqual([profile]);
      expect(resolveName(file, "keys", "limiter-service", profile)).toEqual([profile]);
      expect(resolveName(file, "toxiproxy", "api-replica", profile)).toEqual(["api-1", "api-2"]);
    },
  );

  test("control planes stay on loopback; each has a relay in its namespace, on the inner network's address", () => {
    for (const [name] of services.filter(([name]) => roleOf(name) !== undefined)) {
      const port = optionOf(file.services[name] ?? {}, "control-port");
      const relays = services.filter(([, { network_mode: mode }]) => mode === `service:${name}`);
      expect(relays.map(([, { command }]) => command)).toEqual([[`${name}-control`, port]]);
      const holders = services.filter(([, { networks = {} }]) =>
        Object.values(networks).some((on) => on?.aliases?.includes(`${name}-control`)),
      );
      expect(holders.map(([holder]) => holder)).toEqual([name]);
      const networks = Object.entries(file.services[name]?.networks ?? {});
      const [known] = networks.filter(([, on]) => on?.aliases?.includes(`${name}-control`));
      expect(known?.[0]).toBe("control");
    }
    expect(file.services.toxiproxy?.command).toContain("-host=toxiproxy-control");
  });

  test("runs everything without privileges, and ours on a file system that cannot be written", () => {
    for (const [name, service] of services) {
      expect([name, service.cap_drop, service.security_opt]).toEqual([name, ["ALL"], ["no-new-privileges:true"]]);
      const isOurs = service.image === "floodgate-platform";
      if (isOurs) expect([name, service.read_only]).toEqual([name, true]);
      else
        expect([name, service.image]).toEqual([
          name,
          expect.stringMatching(/^(redis:7\.|ghcr\.io\/shopify\/toxiproxy:2\.12\.)/),
        ]);
      // Of ours, the image names the user.
      if (!isOurs) expect([name, service.user]).toEqual([name, expect.stringMatching(/^(redis|65534:65534)$/)]);
    }
  });
});

describe("src/platform/Dockerfile", () => {
  const dockerfile = readFileSync(join(ROOT, "src/platform/Dockerfile"), "utf8");

  test("has the Node of this repository, what a run needs of packages, and a user that is not root", () => {
    const version = readFileSync(join(ROOT, ".nvmrc"), "utf8").trim().replace(/^v/, "");
    expect(dockerfile).toContain(`ARG NODE_VERSION=${version}\nFROM node:\${NODE_VERSION}-slim\n`);
    expect(dockerfile).toMatch(/^RUN npm ci .*--omit=dev/m);
    expect(dockerfile.indexOf("\nUSER node\n")).toBeGreaterThan(dockerfile.lastIndexOf("\nRUN "));
  });

  test("copies only what .dockerignore lets through", () => {
    const passed = readFileSync(join(ROOT, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (.+) \S+$/gm)].flatMap(([, sources]) =>
      (sources as string).split(" "),
    );
    expect(copied).toEqual(passed);
  });
});
