/** The log entry of a call. The credential is masked; of the client's texts, only the request id is logged. */
import { type DestinationStream, destination, type Logger, pino } from "pino";
import { maskCredential } from "../../contract/credentials.ts";

export type CallEntry = {
  requestId: string;
  route: string;
  org: string;
  outcome: string;
  durationMs: number;
  credential: string | null;
};

/** A shorter credential is not shown at all, because prefix and four characters would be most of it. */
const MASKED_FROM_CHARS = 20;
const maskOf = (credential: string): string =>
  credential.length < MASKED_FROM_CHARS ? "..." : maskCredential(credential);

export const requestLogFields = ({ credential, durationMs, ...entry }: CallEntry): Record<string, unknown> => ({
  ...entry,
  durationMs: Math.round(durationMs * 100) / 100,
  credential: credential === null ? null : maskOf(credential),
});

export type LogLevel = "silent" | "error" | "warn" | "info" | "debug";

/** JSON lines on standard error: calls at `debug`, what happens to the deployment at `info`. */
export const createLog = (level: LogLevel, to?: DestinationStream): Logger =>
  pino({ level, base: null }, to ?? destination({ dest: 2, sync: true }));
