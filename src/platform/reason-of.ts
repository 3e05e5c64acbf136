/** The message of a caught value, for a log line or an answer. */
export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
