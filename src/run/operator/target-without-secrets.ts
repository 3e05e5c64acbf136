/**
 * A target file as it may stand in a cluster's ConfigMap: what a scenario has to know of the deployment, and in place of
 * every secret the name of a variable that a Secret gives it.
 */
import type { Target } from "../../target/target.ts";
import { keysFor } from "../../workload/callers/story-keys.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";
import type { Story } from "../../workload/story.ts";

export type SecretWanted = {
  /** Of the environment variable, and of the Secret's key. */
  variable: string;
  /** Where the value stands in the target file. */
  what: string;
};

type StatedForCluster = {
  /** With `env:` references alone; what only the runner acts on is left out. */
  stated: Partial<Target>;
  /** Those that the story reads. */
  wanted: SecretWanted[];
};

const variableOf = (what: string): string =>
  `FLOODGATE_${what
    .replace(/[^A-Za-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "")
    .toUpperCase()}`;

/** What k6 takes from its own process and no variable can give it. */
export const cannotBeHanded = ({ transport }: Pick<Target, "transport">): string[] =>
  (["ca", "cert", "key", "proxy"] as const).flatMap((name) =>
    transport?.[name] === undefined || transport[name] === null ? [] : [`transport.${name}`],
  );

export const withoutSecrets = (target: Target, story: Story, seed: number): StatedForCluster => {
  const names = new Map<string, string>();
  const reference = (what: string): string => {
    const taken = new Set(names.values());
    let variable = variableOf(what);
    // Names that differ in punctuation alone.
    while (taken.has(variable)) variable += "_";
    names.set(what, variable);
    return `env:${variable}`;
  };
  const { schema, name, base_url, key_management_url, tile_url, stream_end, shedding, exclusive } = target;
  const { limits, permits, budget, stop_when, tenants, credentials, transport } = target;
  const stated = {
    schema,
    name,
    base_url,
    key_management_url,
    tile_url,
    stream_end,
    shedding,
    exclusive,
    limits,
    permits,
    budget,
    stop_when,
    tenants: tenants?.map(({ publishable, server, ...rest }) => ({
      ...rest,
      ...(publishable && { publishable: { ...publishable, key: reference(`tenants (${rest.org}).publishable.key`) } }),
      ...(server && { server: { ...server, key: reference(`tenants (${rest.org}).server.key`) } }),
    })),
    credentials:
      credentials &&
      Object.fromEntries(
        Object.entries(credentials).map(([role, credential]) => {
          const field = "token" in credential ? "token" : "key";
          return [role, { ...credential, [field]: reference(`credentials.${role}.${field}`) }];
        }),
      ),
    transport: transport?.headers && {
      headers: Object.fromEntries(
        Object.keys(transport.headers).map((header) => [header, reference(`transport.headers.${header}`)]),
      ),
    },
  };
  // Through JSON, so that what is absent is no member.
  const plain = JSON.parse(JSON.stringify(stated)) as Partial<Target>;
  const keys = keysFor(story, seed, viewOf(target), plain).map(({ what }) => what);
  const headers = [...names.keys()].filter((what) => what.startsWith("transport.headers."));
  const wanted = [...keys, ...headers].map((what) => ({ what, variable: names.get(what) ?? variableOf(what) }));
  return { stated: plain, wanted };
};
