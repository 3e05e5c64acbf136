/** What claims about a stage, a run or a comparison mean, for `explain`; invariants and rules explain themselves. */

type ClaimFamily = {
  /** Claim ids of the family, with `*` for what differs. */
  pattern: string;
  means: string;
  judged: string;
  /** What usually breaks it, or leaves it open. */
  breaks: string;
};

export const CLAIM_FAMILIES: readonly ClaimFamily[] = [
  {
    pattern: "reached/*",
    means:
      "the stage brought about what it is about: the outcomes it was played for, the states that its fault had to meet, the recovery",
    judged:
      "each expected outcome was seen at least once, the driver reported no problem, and a fault showed its effect",
    breaks:
      "a generator that was the bottleneck, too few tenants to fill a cap, a fault that took no effect, a budget that was spent. None of it says anything against the deployment: the stage has to be played again, with what the reason names",
  },
  {
    pattern: "answered/*",
    means:
      "the API answered the calls of the stage: none was answered by a gateway in its place, and none got no answer",
    judged:
      "the share of calls that ended as `edge NNN` or `indeterminate` outside the faults of the run, with its 95 % interval, is at most 1 % (or limits.unanswered_share)",
    breaks:
      "a dead upstream behind a balancer, a rate limit or firewall in front, a proxy's time-out that is shorter than the stream, connections that are reset",
  },
  {
    pattern: "streams-cut/*",
    means: "streams that began came to their end",
    judged:
      "the share of streams that broke off outside the faults of the run, with its 95 % interval: must be below 1 % (or limits.streams_cut_share), should be below 0.1 %",
    breaks: "idle time-outs of a gateway, a deploy that does not drain, HTTP/1.0 between proxy and API, a body limit",
  },
  {
    pattern: "beyond/*",
    means: "an outcome that the stage is made for cannot be seen on this deployment, and this is said by name",
    judged: "always skipped: it names what the target file lacks",
    breaks: "nothing; add what it names to see the outcome",
  },
  {
    pattern: "knee/*",
    means: "the rate at which refusals begin was found, from which the other rates of the stage follow",
    judged: "a rate that rises until calls are shed; the knee has an interval",
    breaks: "permits.load_max_rps below the knee, other people's traffic, a budget that is spent before",
  },
  {
    pattern: "slo/*",
    means: "the objective of the target file holds in this stage",
    judged:
      "the measured share or percentile, with its 95 % interval, against the objective; a doubt about the host leaves it open",
    breaks: "a slow deployment; too few calls for the percentile; a generator that was late",
  },
  {
    pattern: "growth/*",
    means: "a resource of the API does not grow while an ordinary load is on",
    judged:
      "the slope of its readings after the warm-up by Theil and Sen, with a 95 % interval, against what is allowed in an hour",
    breaks: "a leak of memory, sockets, timers or files; too few readings",
  },
  {
    pattern: "refusals-in-budget/*",
    means: "while a dependency is gone, calls are refused within the budget that the target file states for it",
    judged: "the times of the refusals of all experiments on that component, together",
    breaks: "a time-out of a client library that is longer than the budget, retries behind the API",
  },
  {
    pattern: "thresholds/script",
    means: "the thresholds of your own k6 script hold",
    judged:
      "k6's verdict on them; inconclusive where iterations were dropped or threw, a threshold had no sample, or no call was answered",
    breaks: "too few VUs for the arrival rate, an exception in the script",
  },
  {
    pattern: "verify/budget",
    means: "every rule of verify could be tried within the budget of the target file",
    judged: "inconclusive where budget, permits or stop_when ended it before",
    breaks: "budget.requests below what `verify --dry-run` reports",
  },
  {
    pattern: "schedules/*",
    means: "no schedule of random faults breaks an invariant",
    judged: "each schedule by the invariants of its history; a failing one is made short and replayed five times",
    breaks: "a race between a fault and what the platform settles",
  },
  {
    pattern: "gate/*",
    means: "the head is not worse than the base by more than the margin",
    judged: "pairs of short blocks in turn: log-ratio per pair, exact signed-rank test, non-inferiority for a pass",
    breaks: "more work per call, earlier sheds, an invariant that only the head breaks; noise leaves it open",
  },
  {
    pattern: "capacity/*",
    means: "the highest rate at which the objectives hold was found, or the demand is met",
    judged: "probes at rates between bracket and bisection, and a confirmation at the safe end of the interval",
    breaks: "a generator that is the bottleneck, capacity that moves while it is measured",
  },
  {
    pattern: "run/*",
    means: "the run itself came to its end: nothing was left broken, nothing was cut off, no secret was written",
    judged: "inconclusive whatever ended the run before its time",
    breaks: "a signal, a full disk, a deployment that could not be healed, an error of Floodgate",
  },
];

/** The family that a claim, or the first part of its id, belongs to. */
export const familyOf = (id: string): ClaimFamily | undefined =>
  CLAIM_FAMILIES.find(
    ({ pattern }) => pattern === id || (pattern.endsWith("/*") && pattern.split("/")[0] === id.split("/")[0]),
  );
