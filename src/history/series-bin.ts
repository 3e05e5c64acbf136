/** What is counted of one bin of time of one stage. Two bins merge into the one that had seen both. */
import type { SampleName } from "./sample.ts";
import { LogBuckets } from "./statistics/log-buckets.ts";

const DURATIONS = ["latency", "refusals", "first_event", "gaps", "lag"] as const;
export type DurationName = (typeof DURATIONS)[number];

type OrganizationCounts = { offered: number; answered: number; shed: number };

export class SeriesBin {
  offered = 0;
  started = 0;
  ended = 0;
  readonly outcomes = new Map<string, number>();
  readonly organizations = new Map<string, OrganizationCounts>();
  readonly durations: Record<DurationName, LogBuckets> = {
    latency: new LogBuckets(),
    refusals: new LogBuckets(),
    first_event: new LogBuckets(),
    gaps: new LogBuckets(),
    lag: new LogBuckets(),
  };
  readonly samples = new Map<SampleName, number>();

  addOutcome(outcome: string, n: number): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + n);
  }

  addOrganization(org: string, { offered, answered, shed }: OrganizationCounts): void {
    const counts = this.organizations.get(org) ?? { offered: 0, answered: 0, shed: 0 };
    counts.offered += offered;
    counts.answered += answered;
    counts.shed += shed;
    this.organizations.set(org, counts);
  }

  addSample(name: SampleName, value: number): void {
    this.samples.set(name, Math.max(value, this.samples.get(name) ?? Number.NEGATIVE_INFINITY));
  }

  merge(other: SeriesBin): this {
    this.offered += other.offered;
    this.started += other.started;
    this.ended += other.ended;
    for (const [outcome, n] of other.outcomes) this.addOutcome(outcome, n);
    for (const [org, counts] of other.organizations) this.addOrganization(org, counts);
    for (const name of DURATIONS) this.durations[name].merge(other.durations[name].toSparse());
    for (const [name, value] of other.samples) this.addSample(name, value);
    return this;
  }
}
