/** What queueing theory says of the simulated inference, for tests to hold it to. */

/** Erlang's B formula: the share of calls refused with `slots` servers, no queue, and `offered` = λS erlangs. */
export const erlangB = (slots: number, offered: number): number => {
  let blocked = 1;
  for (let c = 1; c <= slots; c += 1) blocked = (offered * blocked) / (c + offered * blocked);
  return blocked;
};

/** The share of calls refused in M/M/C/K: `slots` servers, at most `room` calls in the system, `offered` erlangs. */
export const blockedShare = (slots: number, room: number, offered: number): number => {
  let term = 1;
  let sum = 1;
  for (let n = 1; n <= room; n += 1) {
    term *= offered / Math.min(n, slots);
    sum += term;
  }
  return term / sum;
};
