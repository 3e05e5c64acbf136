/** The API's two links through a real toxiproxy, broken by the catalogue of the experiments (src/faults/link-faults.ts). */
import { type LinkFault, makeFault } from "../../src/faults/link-faults.ts";
import type { Toxiproxy } from "../../src/tools/toxiproxy.ts";
import { FAULTS_OPTIONS } from "../laws/faults-law.ts";
import type { Link, OpenLinks } from "./real-api.ts";

const BUDGETS_MS: Readonly<Record<Link, number>> = {
  keys: FAULTS_OPTIONS.keyServiceBudgetMs,
  limiter: FAULTS_OPTIONS.limiterBudgetMs,
};

/** `prefix` distinguishes the proxies of deployments on the same toxiproxy. */
export const toxicLinks =
  (toxiproxy: Toxiproxy, prefix: string): OpenLinks =>
  async (services) => {
    const nameOf = (link: Link): string => `${prefix}-${link}`;
    const through = async (link: Link): Promise<string> => {
      const { host } = new URL(services[link]);
      const { listen } = await toxiproxy.createProxy({ name: nameOf(link), upstream: host });
      return `http://${listen}`;
    };
    const urls = { keys: await through("keys"), limiter: await through("limiter") };
    const broken: Partial<Record<Link, LinkFault>> = {};
    return {
      urls,
      setFault: async (link, name) => {
        const proxy = toxiproxy.proxy(nameOf(link));
        await broken[link]?.take(proxy);
        delete broken[link];
        if (name === "none") return;
        const fault = makeFault(name, { budgetMs: BUDGETS_MS[link] });
        await fault.put(proxy);
        broken[link] = fault;
      },
      close: async () => {
        await Promise.all([toxiproxy.removeProxy(nameOf("keys")), toxiproxy.removeProxy(nameOf("limiter"))]);
      },
    };
  };
