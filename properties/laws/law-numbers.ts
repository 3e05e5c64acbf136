/**
 * The number of every law. A law's seed ends in its number (seed.ts), so that the seed of a failing case also says which law
 * it is a case of. Numbers are for ever: a new law takes the next free one wherever it stands, a renamed law keeps its own,
 * and the number of a law that goes is not given again.
 */

/** Numbers end a seed as three digits. */
export const LAWS_MAX = 1_000;

/** By the file that holds the law, under `properties/`. */
const LAWS: Readonly<Record<string, Readonly<Record<number, string>>>> = {
  "order.property.test.ts": {
    1: "P1 the first failing check decides",
    2: "P1 nothing is asked beyond the check that decides, and the limiter is asked last and once",
    3: "P1 a call holds the slots that it passed and gives back each once",
    4: "P7 used and limit are integers, and only the flat quota refusal carries them",
    94: "P6 a call is charged to the meter of its route, by its tier's cap, and to no other",
    97: "an answer names the origin exactly when the key's list has it",
  },
  "order-repair.property.test.ts": {
    5: "P2 removing the cause of the reported refusal never reveals an earlier one",
    6: "P2 mending one reported cause after another leads in",
    7: "a healthy call is admitted whatever cannot concern it",
  },
  "admission.property.test.ts": {
    8: "P3 admission is exactly the intersection of what the key stores and what the tier admits",
    9: "P3 Free admits exactly the product tile, Pro all four, no plan none",
    10: "P3 a downgrade never adds a product or a use",
    11: "P3 a scope more, or a product more in a list of some, never takes a product or a use away",
    12: "P3 the order of the lists and names said twice change nothing",
    13: "P3 what is no matter of admission has no say in it",
    14: "P4 the tier is named only when the key has stored the capability",
    15: "P4 a stored capability is never called insufficient: only the tier can stand in its way",
    16: "whoever can mint a product can use what it was minted for",
    99: "P3 what can be minted is what the key stores cut with what the tier admits, through the whole order of checks",
  },
  "envelopes.property.test.ts": {
    17: "P5 a body has detail, or error, or neither, and the subcode alone says which",
    18: "P5 what is written is read back as the same refusal, however the JSON is spaced",
    19: "P5 fields that a newer deployment adds do not change what is read",
    20: "P5 reading never throws, and always gives a name that can be counted",
    21: "P5 an answer without a word of the contract is called edge, never shedding",
    95: "P5 what the server writes has the status, the body and the headers of its subcode",
  },
  "quota.property.test.ts": {
    22: "P6 exactly the admitted mints are charged, never above the cap, in any interleaving",
  },
  "exchange-answer.property.test.ts": {
    23: "P8 a session is short, names its product, and is a new token each time",
  },
  "style-precedence.property.test.ts": {
    24: "P9 a style always comes out, and it is the first that was given",
    25: "P9 what stands behind the first given source has no say",
    26: "P9 leaving out a source that gave nothing changes nothing",
  },
  "streams.property.test.ts": {
    27: "P10 every event comes out once, whole and in order, wherever the bytes are cut",
    28: "P10 comments, unknown events and foreign fields change nothing",
    29: "P10 line ends are a matter of taste: LF, CR LF and CR read the same",
    30: "P10 a stream that is cut short of its last event has not ended",
    31: "P10 what comes after the terminal event is reported apart, and never ends the stream a second time",
    32: "P10 the end of another stream's vocabulary is not the end of this one",
    96: "P10 every stream that the server speaks has its own words, one end, and nothing after it",
  },
  "masking.property.test.ts": {
    33: "P11 no credential survives masking, in whatever text it stands",
    34: "P11 not even eight characters of a credential's inside survive, when it stands alone between words",
    35: "P11 masking twice is masking once",
    36: "P11 masked JSON is still JSON, and keeps what is no secret",
    37: "P11 masking finds what it masks: a text is unchanged if and only if no secret is found in it",
    98: "P11 the log line of a call holds no credential, whatever it was called with",
  },
  "faults.property.test.ts": {
    38: "P12 any sequence of faults on both links leaves only allowed answers, and none after healing",
  },
  "real-server.property.test.ts": {
    39: "the real server answers as the model does, through changes, months, faults and healing",
  },
  "management.property.test.ts": {
    40: "a creation is decided by the first failing check of B5",
    41: "a change is decided by the first failing check of B5, and only what it adds is held against the tier",
    42: "a change that narrows is allowed on any recognised plan",
    43: "an admitted change does what it says, and nothing else",
    44: "a created key is valid, belongs to the organization and has what was asked for",
    45: "whatever is created, changed and revoked in whatever order, the key limit holds and the dead stay dead",
    46: "a foreign or unknown key is not found, whatever is asked",
    47: "a key can be revoked on any plan, and then never again",
  },
  "meters.property.test.ts": {
    48: "the window of a moment is its calendar month in UTC",
    49: "a month begins at its first millisecond and ends at its last",
    50: "windows sort as text in the order of time",
    51: "charging one by one ends exactly at the cap, and never above it",
    52: "a paid organization stops at five times its allowance, any other at it, and the refusal says which",
    53: "a meter without a cap only counts",
  },
  "rate-limit.property.test.ts": {
    54: "in any window of w seconds at most burst + rate x w calls are admitted",
    55: "a call is admitted exactly when a leaky bucket has room for it",
    56: "an interval that is no whole number of milliseconds decides the same but within a hundredth of a millisecond",
    57: "a refused call that comes again after its wait is admitted, and not before",
    58: "a refusal takes nothing, so asking in vain delays nobody",
    59: "a clock that jumps admits no more than its whole span allows",
  },
  "origin.property.test.ts": {
    60: "a normalised origin is what the URL standard makes of it",
    61: "normalising twice is normalising once",
    62: "two spellings are one origin exactly when scheme, host and port agree",
    63: "an origin is listed exactly when the list holds a spelling of it",
    64: "an origin that only looks like a listed one is not listed",
    65: "the opaque origin is listed for nobody, not even by its name",
    66: "without a list only a test publishable key lets anyone in, and only from loopback",
    67: "an address is read as its bits, in whatever notation",
    68: "an IPv4 address written inside IPv6 is that IPv4 address",
    69: "an address is in a block exactly when the first bits agree",
    70: "a block that is written wrong lists nobody",
    71: "no text makes the address rules throw, and nonsense is no address",
  },
  "shedding.property.test.ts": {
    72: "fixed caps admit exactly who fits, and every slot comes back",
    73: "adaptive limits never admit more than the caps, and every slot comes back",
  },
  "schedules.property.test.ts": {
    74: "arrivals ascend, begin no earlier than the profile and end with it",
    75: "the k-th uniform arrival is where the profile has offered k calls",
    76: "poisson arrivals are as many as offered, within six standard deviations",
    77: "the same seed gives the same schedule, walked or at once",
    78: "a profile scaled up offers its multiple in the same time",
  },
  "statistics.property.test.ts": {
    79: "a quantile lies within the data, grows with its share, and moves with the data",
    80: "the mean lies within the data and forgets its order",
    81: "a quantile's ranks cover it with 95 %, both tails at most 2.5 %, and no closer ranks would",
    82: "a quantile's interval holds the sample quantile",
    83: "the interval of a proportion holds it, stays within 0 and 1, mirrors its opposite, and narrows with more data",
    84: "fairness lies between 1/n and 1, and cares neither for scale nor for order",
  },
  "histogram.property.test.ts": {
    85: "the sample at every rank lies where the histogram says, within its error",
    86: "a quantile is the sample of its nearest rank, within the error",
    87: "number, least, most and mean are exact",
    88: "the parts joined in any order are the whole, and stay as they are",
    90: "recording one value n times is recording it once with a count",
  },
  "invariants-order.test.ts": {
    91: "allows whatever the healthy core answers, as ours and as anybody's",
  },
  "invariants-honest.test.ts": {
    92: "is condemned by no judge, whatever blurs its history",
    120: "is condemned by no judge, whoever else calls it and whatever its owner states",
    121: "is no doubt where it is only shared: what needs all callers is skipped by name",
  },
  "stream-readers.property.test.ts": {
    93: "P10 the Go reader and eventsource-parser read the same events out of any bytes",
  },
  "reports.property.test.ts": {
    100: "P11 no credential stands in any file of a run, wherever it stood in what the run found",
    101: "P11 a secret without a shape that was read from the target file stands in no file of a run",
    102: "P11 a line that a child says is masked wherever its chunks are cut",
  },
  "stream-wire.property.test.ts": {
    103: "P10 over the wire a stream ends as its events say, whatever noise and pieces it comes in",
  },
  "order-wire.property.test.ts": {
    104: "P1 over real sockets the answer is that of the first failing check",
  },
  "intervals.property.test.ts": {
    111: "intervals of independent calls hold the true quantile in 19 of 20 runs, without being much too wide",
    112: "intervals of calls that hang together hold it as well, and order statistics alone would not",
    113: "intervals of times in a busy queue hold it, or say that the calls are too few",
  },
  // They fail on purpose, to try the replay line of a failure, and are registered only when asked for.
  "laws/planted.test.ts": {
    998: "planted: every number is small",
    999: "planted: a counter never reaches three",
  },
};

export type Law = { number: number; name: string; file: string };

export const ALL_LAWS: readonly Law[] = Object.entries(LAWS).flatMap(([file, names]) =>
  Object.entries(names).map(([number, name]) => ({ number: Number(number), name, file })),
);

export const lawNumbered = (number: number): Law | undefined => ALL_LAWS.find((law) => law.number === number);

/** Throws for a law without a number: it could not be replayed. */
export const numberOfLaw = (name: string): number => {
  const found = ALL_LAWS.find((law) => law.name === name);
  if (found === undefined) throw new Error(`The law "${name}" has no number: give it one in laws/law-numbers.ts.`);
  return found.number;
};
