/** What k6 asks of a script. */
export type Scenario = {
  options: Record<string, unknown>;
  setup(): unknown;
  run(data?: unknown): void;
  teardown(): void;
  handleSummary(data: unknown): Record<string, string>;
};
