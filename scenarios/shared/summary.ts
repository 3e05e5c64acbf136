/** k6's own figures, written for the runner: how many iterations were done and how many dropped. */
import { handed } from "./handed.ts";

export const handleSummary = (data: unknown): Record<string, string> => ({
  [handed.summaryPath]: JSON.stringify(data),
});
