/**
 * docker-compose.yml read as a test needs it: variables put in, and who reaches whom by which name. Only what that file uses is
 * understood; its form is checked against the schema of the Compose Specification elsewhere.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";

export const ROOT = join(import.meta.dirname, "../..");
export const COMPOSE_PATH = join(ROOT, "docker-compose.yml");

export type ComposeService = {
  image?: string;
  user?: string;
  entrypoint?: string[];
  command?: string[];
  environment?: Record<string, string>;
  networks?: Record<string, { aliases?: string[] } | null>;
  network_mode?: string;
  ports?: string[];
  profiles?: string[];
  read_only?: boolean;
  cap_drop?: string[];
  security_opt?: string[];
  healthcheck?: { test: string[] };
};

export type ComposeFile = {
  services: Record<string, ComposeService>;
  networks: Record<string, { internal?: boolean } | null>;
  configs: Record<string, { content: string }>;
};

/** `${NAME}`, `${NAME:-default}`, `${NAME:?message}`. */
const VARIABLE = /\$\{(\w+)(?::([-?])([^}]*))?\}/g;

const interpolate = (value: unknown, variables: Record<string, string>): unknown => {
  if (Array.isArray(value)) return value.map((item) => interpolate(item, variables));
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, of]) => [key, interpolate(of, variables)]));
  }
  if (typeof value !== "string") return value;
  return value.replace(VARIABLE, (_, name: string, how: string | undefined, word: string) => {
    if (variables[name]) return variables[name];
    if (how === "-") return word;
    throw new Error(`expected ${name} to be set: ${word ?? ""}`);
  });
};

export const composeText = (): string => readFileSync(COMPOSE_PATH, "utf8");

export const readCompose = (variables: Record<string, string>): ComposeFile =>
  interpolate(parse(composeText(), { merge: true }), variables) as ComposeFile;

/** The value of a long option given as `--name=value`. */
export const optionOf = ({ command = [] }: ComposeService, name: string): string | undefined =>
  command.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);

/** The networks that a service is on, its own or those of the service whose network namespace it shares. */
const networksOf = (file: ComposeFile, name: string): Record<string, { aliases?: string[] } | null> => {
  const { network_mode: mode, networks = {} } = file.services[name] as ComposeService;
  return mode?.startsWith("service:") ? networksOf(file, mode.slice("service:".length)) : networks;
};

/**
 * The services that `name` stands for where `from` runs: those with that name or alias on a network of both. Sorted; more
 * than one where they share the alias.
 */
export const resolveName = (file: ComposeFile, from: string, name: string, profile: string): string[] => {
  const mine = Object.keys(networksOf(file, from));
  return Object.entries(file.services)
    .filter(([, { profiles }]) => profiles === undefined || profiles.includes(profile))
    .filter(([service, { networks = {} }]) =>
      Object.entries(networks).some(
        ([network, on]) => mine.includes(network) && (service === name || (on?.aliases ?? []).includes(name)),
      ),
    )
    .map(([service]) => service)
    .sort();
};
