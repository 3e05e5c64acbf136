/**
 * A hostile deployment: it sends the credentials of each call back in every encoding and in every field that a server controls,
 * surrounded by terminal escape sequences and CI commands.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { CODED, CODED_OTHERWISE } from "../supervision/coded-secrets.fixture.ts";

export const ALL_CODINGS: Readonly<Record<string, (secret: string) => string>> = {
  ...CODED,
  ...CODED_OTHERWISE,
  "as it is": (secret) => secret,
  "its letters mixed": (secret) =>
    [...secret].map((c, i) => (i % 2 === 0 ? c.toUpperCase() : c.toLowerCase())).join(""),
};

const AROUND = [
  "\u001b]0;owned\u0007",
  "::error::",
  "\n##vso[task.complete result=Succeeded;]",
  "<img src=x>",
  "\u202e",
];

type Reply = (res: ServerResponse, said: string, n: number) => void;

const json = (res: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void => {
  res.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
};

/** A header may hold visible ASCII alone. */
const headerText = (text: string): string => text.replace(/[^\x20-\x7e]/g, ".");

const REPLIES: readonly Reply[] = [
  (res, said) => json(res, 403, { detail: said }),
  (res, said) => json(res, 429, { error: said }, { "retry-after": headerText(said) }),
  (res, said) => json(res, 429, { error: "map_load_quota_exceeded", meter: said, limit: said, used: [said] }),
  (res, said) => json(res, 422, { detail: [{ loc: [said], msg: said, type: said, [said]: said }] }),
  (res, said) => json(res, 200, { error: said, [said]: said, session_token: said, product: said, expires_in: said }),
  (res, said) =>
    json(res, 200, { ok: true, basemap_style_id: said }, { "x-said": headerText(said), etag: headerText(said) }),
  (res, said) => json(res, 401, { detail: said, [said]: said }, { "www-authenticate": headerText(said) }),
  (res, said) => json(res, 500, said),
  (res, said) => res.writeHead(502, { "content-type": headerText(`text/${said}`) }).end(`<html>${said}</html>`),
  (res, said) => res.writeHead(302, { location: `/${encodeURIComponent(said)}?key=${encodeURIComponent(said)}` }).end(),
  (res, said) => res.writeHead(403, { "content-type": "application/json" }).end(`{"detail": "${said}`),
  (res, said) => {
    res.writeHead(200, { "content-type": "text/event-stream" });
    const name = said.replace(/\n/g, " ");
    for (let i = 0; i < 40; i++)
      res.write(`event: ${name}${i}\nid: ${name}\ndata: ${JSON.stringify({ [said]: said })}\n\n`);
    res.end(`event: error\ndata: ${JSON.stringify({ type: "error", code: said, message: said })}\n\n`);
  },
];

const credentialsOf = ({ headers }: IncomingMessage): string[] =>
  [headers.authorization, headers["x-api-key"], headers.cookie, headers["x-team"]]
    .flatMap((value) => (typeof value === "string" ? [value.replace(/^bearer /i, "")] : []))
    .filter((value) => value !== "");

export const startHostileServer = async (): Promise<{ url: string; close(): Promise<void>; calls(): number }> => {
  const codings = Object.values(ALL_CODINGS);
  let n = 0;
  const server = createServer((req, res) => {
    const secrets = credentialsOf(req);
    const i = n++;
    req.resume().on("end", () => {
      const code = codings[(i + Math.floor(i / REPLIES.length)) % codings.length] as (secret: string) => string;
      const secret = secrets[i % Math.max(1, secrets.length)] ?? "nothing";
      const said = i % 3 === 0 ? `${AROUND[i % AROUND.length]}${code(secret)}` : code(secret);
      (REPLIES[i % REPLIES.length] as Reply)(res, said, i);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: () => n,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};
