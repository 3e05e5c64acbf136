/**
 * The envelopes of the second deployment's refusals: `detail`, flat, a 401 without text, a malformed body. A defect that all
 * refusals of one kind share belongs here.
 */
import type { Names } from "./names.ts";

export type Reply = { status: number; body?: unknown; text?: string; headers?: Headers };
type Headers = Record<string, string>;
export type Replies = ReturnType<typeof repliesOf>;

/** In place of an answer the connection is closed. */
export const HANGS_UP: Reply = { status: 0 };
export const SERVER_ERROR: Reply = { status: 500, body: {} };

export const repliesOf = ({ is, has }: Names) => {
  /** Members that only some deployments add. */
  const extra: object = is("extra-fields") ? { request_id: "r-1", doc: "https://docs.example" } : {};
  const detail = (status: number, code: string, headers: Headers = {}): Reply => ({
    status,
    headers,
    body: has("flattens-the-detail")
      ? { error: code }
      : has("says-subcodes-as-messages")
        ? { statusCode: status, error: "Forbidden", message: code }
        : { detail: has("refuses-in-sentences") ? `Sorry: that was "${code}".` : code, ...extra },
  });
  const flat = (code: string, fields = {}, headers: Headers = {}): Reply => ({
    status: 429,
    headers,
    body: has("wraps-the-flat-body")
      ? { detail: { error: code, ...fields } }
      : has("both-envelopes")
        ? { detail: code, error: code, ...fields }
        : { error: code, ...fields, ...extra },
  });
  const unauthenticated = (): Reply => {
    if (has("detail-on-401")) return { status: 401, body: { detail: "Not authenticated" } };
    if (has("403-without-a-word")) return { status: 403, body: {} };
    if (has("403-for-nobody")) return detail(403, "forbidden");
    if (is("empty-401")) return { status: 401 };
    if (is("message-401")) return { status: 401, body: { message: "no", error: "unauthorized" } };
    return { status: 401, body: {} };
  };
  const malformed = (): Reply => {
    if (has("500-on-malformed")) return { status: 500, text: "Internal Server Error" };
    if (has("400-on-malformed")) return detail(400, "bad_request");
    return is("fastapi-422")
      ? { status: 422, body: { detail: [{ loc: ["body"], msg: "field required", type: "missing" }] } }
      : detail(422, "malformed_body");
  };
  return { extra, detail, flat, unauthenticated, malformed };
};
