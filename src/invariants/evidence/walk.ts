/**
 * One walk down an order of checks: gathers every answer that the specification allows a call to get, and stops at the
 * first check that certainly fails. A fact that is not known lets the check go either way.
 */
export class Walk {
  readonly legal = new Set<string>();
  #decided = false;

  /** Depends on load, faults or settings, not on the call: allowed here, and so is going on. */
  may(...outcomes: string[]): this {
    if (!this.#decided) for (const outcome of outcomes) this.legal.add(outcome);
    return this;
  }

  /** `true`: the call certainly fails here and nothing after it is allowed. `undefined`: not known. */
  check(fails: boolean | undefined, ...outcomes: string[]): this {
    if (this.#decided || fails === false) return this;
    this.may(...outcomes);
    this.#decided = fails === true;
    return this;
  }

  /** Every check has been met: what is left is the answer itself. */
  answers(...outcomes: string[]): ReadonlySet<string> {
    this.may(...outcomes);
    return this.legal;
  }
}

/** `a or b` over facts of which some are not known. */
export const either = (...facts: (boolean | undefined)[]): boolean | undefined =>
  facts.includes(true) ? true : facts.includes(undefined) ? undefined : false;

export const not = (fact: boolean | undefined): boolean | undefined => (fact === undefined ? undefined : !fact);
