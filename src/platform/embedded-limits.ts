/** Slots, caps, rates and budgets of the reference deployment that suites and the random search are made for. */
export const EMBEDDED_LIMITS = {
  replicas: 1,
  // Small enough for two cores to drive it to three times its capacity.
  slots: 24,
  service_ms: 300,
  global_in_flight: 24,
  org_in_flight: 8,
  rate_per_s: 60,
  burst: 120,
  // What the platform gives its dependencies, and how long a record may be out of date.
  limiter_budget_ms: 250,
  key_service_budget_ms: 1_000,
  revocation_budget_ms: 1_000,
} as const;
