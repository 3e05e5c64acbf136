/** What a caught value says of itself, for a log line or an answer. */
export const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
