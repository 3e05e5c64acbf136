/** What an error of the transport says about how a call ended. */
import type { StreamEnd } from "../contract/streams.ts";

const CUT_SHORT = new Set([
  "UND_ERR_SOCKET",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  "UND_ERR_RES_EXCEEDED_MAX_SIZE",
  // The connection ended where a chunk was due.
  "HTTPParserError",
]);

const OURS = new Set(["UND_ERR_DESTROYED", "UND_ERR_CLOSED"]);

/** A cut by FIN inside a body is `truncated`; before the head, or by RST anywhere, it is `reset`. */
export const endOf = (code: string, hadHead: boolean): StreamEnd =>
  hadHead && CUT_SHORT.has(code) ? "truncated" : "reset";

export const codeOf = (error: Error): string =>
  (error as NodeJS.ErrnoException).code ?? (error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.name;

/** We closed the connections ourselves, at the end of a stage. */
export const isOurs = (code: string): boolean => OURS.has(code);
