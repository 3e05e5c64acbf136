/**
 * What browsers ask about: preflights, and the heads that let a page read an answer. A defect of CORS belongs here.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { credentialIn, isListed, keyBySecret, readToken } from "./credentials.ts";
import type { Reply } from "./replies.ts";
import type { ApiState } from "./state.ts";

/** `null`: no preflight, or one that is taken for any other call. */
export const preflightReply = ({ is, has }: ApiState, req: IncomingMessage): Reply | null => {
  if (req.method !== "OPTIONS" || !(is("answers-preflights") || has("preflights-without-a-key"))) return null;
  const allowed = has("preflights-without-a-key") ? "Content-Type" : "Content-Type, X-Api-Key";
  return {
    status: 204,
    headers: {
      "Access-Control-Allow-Origin": String(req.headers.origin),
      "Access-Control-Allow-Headers": allowed,
    },
  };
};

export const setCorsHeads = (api: ApiState, req: IncomingMessage, res: ServerResponse): void => {
  const { is, has } = api;
  const page = req.headers.origin;
  const credential = credentialIn(api, req) ?? "";
  if (has("echoes-the-credential")) res.setHeader("X-Debug-Key", credential);
  const caller = readToken(api, credential)?.key ?? keyBySecret(api, credential);
  const silent = has("cors-for-json-alone") && (req.url ?? "").endsWith("/stream");
  if (page !== undefined && caller?.kind === "pk" && isListed(api, caller, page) && !is("no-cors") && !silent) {
    res.setHeader("Access-Control-Allow-Origin", has("cors-for-another") ? `${page}.example` : page);
  }
};
