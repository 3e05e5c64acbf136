/**
 * Randomness without state: the n-th number is a function of seed and n, the same in k6, the open-loop driver and a replay.
 * MurmurHash3's finaliser (Appleby, public domain) absorbs three 32-bit words. Not for secrets.
 */
import { fnv1a } from "../contract/foreign-text.ts";

const fmix32 = (word: number): number => {
  let h = word;
  h ^= h >>> 16;
  h = Math.imul(h, 0x85ebca6b);
  h ^= h >>> 13;
  h = Math.imul(h, 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
};

const GOLDEN = 0x9e3779b9;

/** 32 bits from a seed, a counter (up to 2^53) and a salt that separates uses of one counter. */
export const bits32 = (seed: number, i: number, salt: number): number => {
  const low = i % 0x100000000;
  const high = (i - low) / 0x100000000;
  let h = fmix32((seed | 0) ^ GOLDEN);
  h = fmix32((h + Math.imul(low | 0, GOLDEN) + 0x7f4a7c15) | 0);
  if (high !== 0) h = fmix32((h ^ (high | 0)) | 0);
  return fmix32((h + Math.imul(salt | 0, 0x632be5ab) + 0x1b873593) | 0);
};

/** Uniform in [0, 1), with 53 bits. */
export const uniform = (seed: number, i: number, salt: number): number => {
  const high = bits32(seed, i, salt) >>> 5;
  const low = bits32(seed, i, salt ^ 0x5bf03635) >>> 6;
  return (high * 0x4000000 + low) / 0x20000000000000;
};

/** An integer in [0, below). `below` is far smaller than 2^32, so scaling has no visible bias. */
export const whole = (seed: number, i: number, salt: number, below: number): number =>
  Math.floor(uniform(seed, i, salt) * below);

/** Exponential with mean 1: the gap of a Poisson process of rate 1. */
export const exponential = (seed: number, i: number, salt: number): number => -Math.log(1 - uniform(seed, i, salt));

export const pick = <T>(seed: number, i: number, salt: number, items: readonly T[]): T =>
  items[whole(seed, i, salt, items.length)] as T;

export const saltOf = fnv1a;
