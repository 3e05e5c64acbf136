/** Secrets of keys: made from the system's randomness, shown once, and known afterwards by their SHA-256 only. */
import { hash, randomInt } from "node:crypto";
import type { KeyRecord } from "../../core/records.ts";

const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

export const base62 = (chars: number): string =>
  Array.from({ length: chars }, () => BASE62.charAt(randomInt(BASE62.length))).join("");

/** `svc_pk_{env}_…` or `svc_sk_{env}_…` (item 51): 32 characters of base 62, 190 bits. */
export const makeSecret = ({ kind, env }: Pick<KeyRecord, "kind" | "env">): string =>
  `${kind === "publishable" ? "svc_pk" : "svc_sk"}_${env}_${base62(32)}`;

export const makeKeyId = (): string => `key_${base62(16)}`;

/** What is stored and what a look-up sends: hex, 64 characters. */
export const hashSecret = (secret: string): string => hash("sha256", secret, "hex");
