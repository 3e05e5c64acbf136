/** The states in which a fault may meet a deployment, and how a stage reports which it met. */
export const FAULT_STATES = [
  "streams-open",
  "cold-keys",
  "last-unit",
  "refund-under-way",
  "month-edge",
  "shedding",
] as const;
export type FaultState = (typeof FAULT_STATES)[number];

/** What each state counts, in words for the report. */
export const FAULT_STATE_WORDS: Readonly<Record<FaultState, string>> = {
  "streams-open": "streams open when the fault came",
  "cold-keys": "calls by a key whose record was too old",
  "last-unit": "last unit of an allowance taken",
  "refund-under-way": "charges given back",
  "month-edge": "charges given back after the month's edge",
  shedding: "calls shed",
};

/** `times`: how often a fault met the state; `null` if the deployment shows too little to say. */
export type StateReached = { state: FaultState; must: boolean; times: number | null };

export type StateTimes = Record<FaultState, number | null>;

/** The states as a stage reports them, in the order of `FAULT_STATES`. */
export const statesReached = (times: StateTimes, must: readonly FaultState[]): StateReached[] =>
  FAULT_STATES.map((state) => ({ state, must: must.includes(state), times: times[state] }));
