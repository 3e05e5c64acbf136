/**
 * The one way to break something and mend it, whoever does it: toxiproxy by its API, or the deployment's own commands. Every
 * implementation is judged by one suite (`fault-port.fixture.ts`).
 */

/** `unknown`: there is nobody to ask. */
type FaultStatus = "in" | "out" | "unknown";

export type FaultPort = {
  /** Throws when it could not be put in, also when something else is in already. */
  inject: (signal: AbortSignal) => Promise<void>;
  /** As it is now, asked of what was broken and not remembered. */
  status: (signal: AbortSignal) => Promise<FaultStatus>;
  /**
   * By all means it has; says what it took. Harmless when nothing is in, so that it can be tried beforehand and again after
   * anything. Throws when the fault is still in.
   */
  heal: (signal: AbortSignal) => Promise<string[]>;
};
