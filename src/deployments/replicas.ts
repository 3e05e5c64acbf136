/** More API replicas of the embedded deployment on the same dependencies, and a front before them, for one stage. */
import { controlSend } from "../client/control-planes.ts";
import type { Target } from "../target/target.ts";
import type { Deployment, OwnParts } from "./deployment.ts";
import type { Part, ServePart } from "./part.ts";

export type Replicated = { deployment: Deployment; close(): Promise<void> };

const origin = (url: string): string => new URL(url).origin;

export const reachedAt = (
  url: string,
  target: Target,
): Pick<Target, "base_url" | "key_management_url" | "tile_url"> => {
  const { pathname } = new URL(target.base_url);
  const base = `${url}${pathname}`;
  return { base_url: base, key_management_url: base, tile_url: `${base}/maps/tiles/{z}/{x}/{y}` };
};

export const withReplicas = async (deployment: Deployment & { own: OwnParts }, count: number): Promise<Replicated> => {
  const { target, own } = deployment;
  const opened: Part[] = [];
  const close = async (): Promise<void> => {
    for (const part of opened.reverse()) if (part.isRunning()) await part.endInOrder().catch(() => part.kill());
  };
  const keep = <P extends ServePart>(started: P): P => {
    opened.push(started.part);
    return started;
  };
  try {
    const more: ServePart[] = [];
    for (let at = 2; at <= count; at += 1) more.push(keep(await own.startApi(`api-${at}`)));
    const urls = [origin(target.base_url), ...more.map(({ url }) => origin(url))];
    const front = keep(
      await own.startRole(
        "front",
        "front",
        urls.flatMap((url) => ["--upstream", url]),
      ),
    );
    return {
      close,
      deployment: {
        ...deployment,
        target: {
          ...target,
          ...reachedAt(front.url, target),
          limits: { ...target.limits, replicas: count },
          control: { ...target.control, api: [...(target.control?.api ?? []), ...more.map(({ control }) => control)] },
        },
        own: {
          ...own,
          apis: [...own.apis, ...more.map(({ part }) => part)],
          front: {
            upstreams: urls,
            send: async (upstreams) => {
              await controlSend("PATCH", `${front.control}/deployment`, { upstreams });
            },
          },
        },
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
};
