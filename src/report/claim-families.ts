/** What claims about a stage, a run or a comparison mean, for `explain`. Invariants and rules explain themselves. */
import { groupOf } from "../history/run-document.ts";

/** Requirements: the two overload subcodes, what sheds and when, which of them comes first. */
const SHEDDING = [210, 211, 220, 221] as const;

/** Why any claim about the curve may be skipped or open. */
const OPEN_BY =
  "Skipped where permits or the key's rate end below the load it needs (`load shedding-curve` is inconclusive then); open where something else may explain a fail: capacity that moved, an edge that answers, other callers (`exclusive` not stated), a limiter that probes, a generator that was late";

/** `breaks`: what usually breaks the claim, or leaves it open. */
type Row = readonly [pattern: string, means: string, judged: string, breaks: string];

/** Claims about the shedding curve (goodput over offered load, up past the knee and down) and how a step settles. */
// biome-ignore format: a claim on two lines
const CURVE: readonly Row[] = [
  ["shed_subcodes", "past the knee calls are refused with `b2b_overloaded` or `org_overloaded` alone, so that callers can tell overload from an error",
    "must: other refusals are at most a point more of the calls past the knee than below it", "a pool or proxy in front of the limiter that overflows first: 500, 502, 503 or 504 under load"],
  ["goodput_retention", "at twice its capacity the deployment serves nearly as much as at its best load",
    "must: good calls a second at 2 times the knee, with their interval, over the largest of any level: at least 80 %, or what Erlang's formula leaves to so few slots", "work before the refusal: parsing, keys or a database query for calls that are then shed; queues that are longer than callers wait"],
  ["collapse", "under five times the load at least half of the best goodput is left, under ten times a third",
    "must: as goodput_retention, at 5 times the knee and 50 %, at 10 times and a third", "refusals that cost as much as calls, one event loop for both, memory that grows with what waits"],
  ["refusal_time", "a refused caller is told so sooner than a served one has its answer",
    "must: the median time of refusals at each level past the knee, against that of the calls served there (at least the mean time at the calmest level) and 50 ms", "refusals that wait in the queue they are refused by, a refusal after calls to other services, one event loop that is behind"],
  ["goodput_retention_2", "under twice the load hardly anything is lost",
    "should: as goodput_retention, 95 %", "a limit that is set too high or too low, latency that grows with what is in flight"],
  ["goodput_retention_5", "under five times the load little is lost",
    "should: as goodput_retention, at 5 times the knee and 90 %", "the price of a refusal: at 2 % of a call 8 % are lost there"],
  ["metastability", "when the overload is over, goodput, latency and capacity are those before it",
    "must: the calm loads before and after the overload: at each of them fewer good calls or a longer median time is a fail, as is a largest goodput that is certainly a tenth lower; a limit on calls in flight that was low and rose again leaves it open unless shedding is stated to be fixed", "retries that keep the queue full, caches that were emptied, slots, connections or memory that are not given back"],
  ["false_sheds", "nothing is shed while there is room",
    "must: the share shed at up to half of the knee, with its interval: at most 0.1 % (limits.false_sheds_allowed) and what chance refuses, on both ways; or refusals that come as often beside few calls as beside many. Limits that are low for a while leave it open unless shedding is stated to be fixed", "a limit below what can be carried, a limiter that probes, one replica that gets more than its part"],
  ["slots_leaked", "each slot that a call took is given back when the call ends, however it ends",
    "must: the gauges of all replicas after the drain, less those before the stage: none", "a release that is skipped when the caller leaves, on an error, or when a stream is cut; needs control.api"],
  ["closed_form", "a deployment of fixed slots carries what Erlang's loss formula has for them",
    "should: at least 90 % at every level; where shedding is fixed, and limits.slots and limits.service_ms are stated", "a second limit below the stated one, service times that grow with load, uneven replicas"],
  ["hysteresis", "at the same load as much is served on the way down as on the way up",
    "should: the area between both curves is at most 5 % of the area under the first", "a limit that falls fast and recovers slowly, queues that are still full"],
  ["oscillation", "under a steady load a steady share is shed",
    "should: the scatter of the share between windows is at most 3 times that of chance, as the median of the levels past the knee", "control loops that act on late or averaged signals: AIMD, CoDel, an average over a minute"],
  ["refusal_cost", "a refusal costs little beside a call",
    "must: a fail where it certainly costs more than 5 % of a call, which leaves 79 % of the goodput at 5 times the knee, and a pass where it certainly costs less than 10 %; from how goodput falls with the load past the knee", "refusals that take a worker, a database or a remote service as long as part of a call does"],
  ["refusal_price", "a refusal costs next to nothing beside a call",
    "should: at most 2 % of a call, from how goodput falls with the load past the knee", "refusals after authentication by a remote service, logging of each, TLS handshakes for each"],
  ["wasted_work", "work is done for streams that are of use",
    "should: at most 5 % of the events past the knee are on streams that are cut or come late", "admission before there is room, time-outs shorter than a stream, no check whether the caller is still there"],
  ["jain_index", "organizations that compete get their max-min fair share",
    "should: Jain's index over served divided by the fair share, at least 0.98", "first come first served, caps per replica instead of per organization, a noisy one that retries faster"],
  ["isolation", "a quiet organization inside its share is not refused because of a noisy one",
    "must: the same calls on one seed, once beside the noisy one and once without it, paired one by one; an exact test of those that differ", "one pool for all, no cap of an organization, a cap of all that a noisy one can fill"],
  ["recovery", "after an overload calls are served as before it, by callers who retry",
    "must: the share served at the end against that before the overload; a fail needs that nothing else explains it", "retries that keep the overload going, queues full of calls that nobody waits for, a limit that does not rise again"],
  ["reaction", "a step of load or capacity is answered soon",
    "should: within 5 s every later window keeps 95 % of the goodput to come, or of that before the step, and its p99 the objective; short times need many calls a second to be seen", "an average over a long window, a limit by AIMD or Gradient2 at its defaults (about 8 s), an autoscaler"],
  ["amplification", "callers who retry make no more attempts after an overload than before it",
    "should: attempts over first attempts at the end are nearer to those before than to those at the top; a fail needs that recovery fails too", "no Retry-After, the same one for all, retries in several layers"],
];

/** A pattern is a claim's id, with `*` for the part that varies. */
// biome-ignore format: a family on two lines
const OTHERS: readonly Row[] = [
  ["reached/*", "the stage brought about what it is about: the outcomes it was played for, the states that its fault had to meet, the recovery",
    "each expected outcome was seen at least once, the driver reported no problem, and a fault showed its effect", "a generator that was the bottleneck, too few tenants to fill a cap, a fault that took no effect, a budget that was spent. None of it says anything against the deployment: the stage has to be played again, with what the reason names"],
  ["answered/*", "the API answered the calls of the stage: none was answered by a gateway in its place or with a server error, and none got no answer",
    "the share of calls that ended as `edge NNN`, with a 5xx other than 503 or as `indeterminate` outside the faults of the run, with its 95 % interval, is at most 1 % (or limits.unanswered_share); more 503 than that leave it open", "calls that are refused as 500 when there are too many, a dead upstream behind a balancer, a rate limit or firewall in front, a proxy's time-out that is shorter than the stream, connections that are reset"],
  ["streams-cut/*", "streams that began came to their end",
    "the share of streams that broke off outside the faults of the run, with its 95 % interval: must be below 1 % (or limits.streams_cut_share), should be below 0.1 %", "idle time-outs of a gateway, a deploy that does not drain, HTTP/1.0 between proxy and API, a body limit"],
  ["beyond/*", "an outcome that the stage is made for cannot be seen on this deployment, and this is said by name",
    "always skipped: it names what the target file lacks", "nothing; add what it names to see the outcome"],
  ["knee/*", "the rate at which refusals begin was found, from which the other rates of the stage follow",
    "a rate that rises until calls are shed; the knee has an interval", "permits.load_max_rps below the knee, other people's traffic, a budget that is spent before"],
  ["slo/*", "the objective of the target file holds in this stage",
    "the measured share or percentile, with its 95 % interval, against the objective; a doubt about the host leaves it open", "a slow deployment; too few calls for the percentile; a generator that was late"],
  ["growth/*", "a resource of the API does not grow while an ordinary load is on",
    "the slope by Theil and Sen of the lowest readings of twelve parts after the warm-up, with a 95 % interval, against what is allowed in an hour; open where growth slows down, or where memory is never given back", "a leak of memory, sockets, timers or files; too few readings; a query that counts garbage"],
  ["refusals-in-budget/*", "while a dependency is gone, calls are refused within the budget that the target file states for it",
    "the times of the refusals of all experiments on that component, together", "a time-out of a client library that is longer than the budget, retries behind the API"],
  ["thresholds/script", "the thresholds of your own k6 script hold",
    "k6's verdict on them; inconclusive where iterations were dropped or threw, a threshold had no sample, or no call was answered", "too few VUs for the arrival rate, an exception in the script"],
  ["verify/budget", "every rule of verify could be tried within the budget of the target file",
    "inconclusive where budget, permits or stop_when ended it before", "budget.requests below what `verify --dry-run` reports"],
  ["schedules/*", "no schedule of random faults breaks an invariant",
    "each schedule by the invariants of its history; a failing one is made short and replayed five times", "a race between a fault and what the platform settles"],
  ["gate/*", "the head is not worse than the base by more than the margin",
    "pairs of short blocks in turn: log-ratio per pair, exact signed-rank test, non-inferiority for a pass", "more work per call, earlier sheds, another subcode, a lost Retry-After or last event, an invariant that only the head breaks; noise leaves it open"],
  ["capacity/demand", "the demand of --demand, headroom included, is carried inside the objectives; with --replicas by one of the numbers that were measured",
    "passes if the low end of an interval carries it, fails if no high end does; nothing is extrapolated", "too few replicas, a limit that more replicas do not raise"],
  ["capacity/without-one-replica", "the demand is carried while one replica is missing",
    "the search with one replica fewer than the highest of --replicas, or than limits.replicas", "no room for the calls of the replica that is missing"],
  ["capacity/replicas", "the highest rate of each number of replicas was found",
    "a search for each number once `scale.ready` finds it and after calls that do not count, on new connections; `scale.ready` is asked again afterwards. Ratios have 95 % intervals", "an autoscaler that changes the number meanwhile, replicas that do not become ready, new replicas that get no calls"],
  ["capacity/*", "the highest rate at which the objectives hold was found, or the demand is met",
    "probes at rates between bracket and bisection, and a confirmation at the safe end of the interval", "a generator that is the bottleneck, capacity that moves while it is measured"],
  ["run/*", "the run itself came to its end: the API was reached, nothing was left broken, nothing was cut off, no secret was written",
    "inconclusive whatever ended the run before its time", "a signal, a full disk, a deployment that could not be healed, another server at base_url, an error of Floodgate"],
];

/** `spec`: numbers of the requirements that a family rests on. */
export const CLAIM_FAMILIES = [
  ...CURVE.map(([measure, means, judged, breaks]) => ({
    ...{ pattern: `curve/${measure}`, means, judged: `${judged}. ${OPEN_BY}`, breaks },
    spec: measure === "amplification" || measure === "recovery" ? [217, ...SHEDDING] : SHEDDING,
  })),
  ...OTHERS.map(([pattern, means, judged, breaks]) => ({ pattern, means, judged, breaks, spec: [] })),
];

export const familyOf = (id: string) =>
  CLAIM_FAMILIES.find(({ pattern }) =>
    pattern.endsWith("/*") ? groupOf(pattern) === groupOf(id) : `${id}/`.startsWith(`${pattern}/`),
  );
