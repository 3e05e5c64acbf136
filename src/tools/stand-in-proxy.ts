/**
 * A TCP proxy in place of toxiproxy where neither Go nor a built toxiproxy is there: the part of its API that Floodgate
 * uses. Run as `node stand-in-proxy.ts -host HOST -port PORT -config FILE`.
 */
import { readFileSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage } from "node:http";
import { parseArgs } from "node:util";
import { whyForeign } from "../contract/private-door.ts";
import { type LinkToxic, StandInLink, type StatedLink, TOXICS } from "./stand-in-link.ts";

type Answer = { status: number; body?: unknown };

const refused = (status: number, error: string): Answer => ({ status, body: { error } });
const MISSING = refused(404, "proxy not found");

const onToxic = (proxy: StandInLink, method: string, name: string | undefined, body: Partial<LinkToxic>): Answer => {
  const toxic = proxy.toxics.find((one) => one.name === (name ?? body.name));
  if (name === undefined) {
    const added = { toxicity: 1, stream: "downstream", attributes: {}, ...body } as LinkToxic;
    if (!Object.hasOwn(TOXICS, added.type)) return refused(400, `the stand-in has no toxic "${added.type}"`);
    if (toxic !== undefined) return refused(409, "toxic already exists");
    proxy.toxics.push(added);
    return { status: 200, body: added };
  }
  if (toxic === undefined) return refused(404, "toxic not found");
  if (method === "DELETE") {
    proxy.removeToxic(toxic);
    return { status: 204 };
  }
  Object.assign(toxic.attributes, body.attributes);
  return { status: 200, body: toxic };
};

const proxies = new Map<string, StandInLink>();

const add = async (stated: StatedLink): Promise<StandInLink> => {
  const proxy = new StandInLink(stated);
  await proxy.setEnabled(stated.enabled !== false);
  proxies.set(stated.name, proxy);
  return proxy;
};

const call = async (method: string, path: string, body: object): Promise<Answer> => {
  const [first, name, toxics, toxic] = path.split("/").slice(1).map(decodeURIComponent);
  if (first === "version") return { status: 200, body: { version: "stand-in" } };
  if (first === "reset" && method === "POST") {
    for (const proxy of proxies.values()) {
      proxy.toxics = [];
      await proxy.setEnabled(true);
    }
    return { status: 204 };
  }
  if (first !== "proxies") return MISSING;
  if (name === undefined) {
    if (method === "GET")
      return { status: 200, body: Object.fromEntries([...proxies].map(([key, one]) => [key, one.state()])) };
    const stated = body as StatedLink;
    if (proxies.has(stated.name)) return refused(409, "proxy already exists");
    return { status: 201, body: (await add(stated)).state() };
  }
  const proxy = proxies.get(name);
  if (proxy === undefined) return MISSING;
  if (toxics === "toxics") return onToxic(proxy, method, toxic, body);
  if (method === "DELETE") {
    await proxy.setEnabled(false);
    proxies.delete(name);
    return { status: 204 };
  }
  const { enabled } = body as Partial<StatedLink>;
  if (method !== "GET" && enabled !== undefined) await proxy.setEnabled(enabled);
  return { status: 200, body: proxy.state() };
};

const answerTo = async (request: IncomingMessage, bound: string): Promise<Answer> => {
  const foreign = whyForeign(request, { bound, names: [] });
  if (foreign !== null) return refused(foreign.status, foreign.error);
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return call(request.method ?? "GET", request.url ?? "/", text === "" ? {} : (JSON.parse(text) as object));
};

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    // toxiproxy-server takes its options with one dash.
    args: process.argv.slice(2).map((word) => word.replace(/^-(?=[a-z]{2})/, "--")),
    options: { host: { type: "string", default: "127.0.0.1" }, port: { type: "string" }, config: { type: "string" } },
  });
  const { host, port, config } = values;
  for (const one of config === undefined ? [] : (JSON.parse(readFileSync(config, "utf8")) as StatedLink[]))
    await add(one);
  createHttpServer((request, response) => {
    void answerTo(request, host)
      .catch((error: Error) => refused(500, error.message))
      .then(({ status, body }) =>
        response
          .writeHead(status, { "content-type": "application/json" })
          .end(body === undefined ? "" : JSON.stringify(body)),
      )
      .catch(() => response.destroy());
  }).listen(Number(port), host);
};

if (import.meta.main) await main();
