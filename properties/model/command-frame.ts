/**
 * The common parts of the model-based law's commands: how a command is printed, finds keys and tokens in the model, and
 * compares an answer. A command names organizations, keys and tokens by a number, modulo how many there are, so that it
 * stays valid when the case is shrunk.
 */
import type fc from "fast-check";
import { expect } from "vitest";
import { readAnswer } from "../../src/contract/refusals.ts";
import type { KeyRecord } from "../../src/core/call.ts";
import type { Heard } from "../../src/platform/start-platform.fixture.ts";
import type { RealApi } from "../rigs/real-api.ts";
import type { Expected, KnownKey, Model } from "./model.ts";

export type Real = {
  api: RealApi;
  /** Prefix of this run's request ids, so that its ledger can be read alone. */
  run: string;
  sent: number;
};

export const ORIGIN = "https://app.example";
export const FOREIGN = "https://evil.example";
export const MINUTE_MS = 60_000;

export type Command = fc.AsyncCommand<Model, Real>;
/** Makes a command that is printed as `text`. */
export const command = (
  text: string,
  run: (model: Model, real: Real, what: string) => Promise<void>,
  check: (model: Readonly<Model>) => boolean = () => true,
): Command => ({ check, run: (model, real) => run(model, real, text), toString: () => text });

export const pick = <T>(items: readonly T[], which: number): T => items[which % items.length] as T;
export const orgIdAt = (model: Readonly<Model>, which: number): string => pick([...model.orgs.keys()], which);

/** Picks mostly a valid key or token, because an invalid one ends at an early check. */
export const keyAt = (model: Readonly<Model>, which: number): KnownKey => {
  const live = model.keys.filter(({ key }) => model.isLive(key));
  return pick(which < 5 && live.length > 0 ? live : model.keys, which);
};
export const publishableAt = (model: Readonly<Model>, which: number): KnownKey => {
  const live = model.keys.filter(({ key }) => key.kind === "publishable" && model.isLive(key));
  return which < 5 && live.length > 0 ? pick(live, which) : keyAt(model, which);
};
export const tokenAt = (model: Readonly<Model>, which: number): string | null => {
  const fresh = model.tokens.filter(({ session }) => session.expiresAtS * 1000 > model.nowMs());
  const from = which < 5 && fresh.length > 0 ? fresh : model.tokens;
  // The newest comes first, because its key is the likeliest to be still valid.
  return from.length === 0 ? null : pick(from.toReversed(), which).token;
};

export const requestId = (real: Real): string => {
  real.sent += 1;
  return `${real.run}.${real.sent}`;
};

export const compare = (heard: Heard, expected: Expected, what: string): void => {
  const read = readAnswer(heard.status, heard.text);
  if (read.outcome !== expected.outcome) throw new Error(`${what}: expected ${expected.outcome}, got ${read.outcome}`);
  if (expected.quota !== undefined) expect(read.quota, `${what}: its quota`).toEqual(expected.quota);
};
export const replace = (model: Model, known: KnownKey, key: KeyRecord): void => {
  model.keys[model.keys.indexOf(known)] = { ...known, key };
};
