/** The ways in which a hostile server may send a key back so that no search for the key finds it. */
const reversed = (text: string): string => [...text].reverse().join("");
const hex = (text: string): string => Buffer.from(text).toString("hex");

export const CODED: Readonly<Record<string, (secret: string) => string>> = {
  base64: (secret) => Buffer.from(secret).toString("base64"),
  "base64 behind a letter": (secret) => Buffer.from(`x${secret}`).toString("base64"),
  base64url: (secret) => Buffer.from(secret).toString("base64url"),
  hex,
  "hex in capitals": (secret) => hex(secret).toUpperCase(),
  "JSON escapes": (secret) => [...secret].map((c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`).join(""),
  percent: (secret) => [...secret].map((c) => `%${hex(c)}`).join(""),
  capitals: (secret) => secret.toUpperCase(),
  "small letters": (secret) => secret.toLowerCase(),
  reversed,
  "HTML entities": (secret) => [...secret].map((c) => `&#${c.charCodeAt(0)};`).join(""),
  "hex with dashes": (secret) => hex(secret).replace(/..(?!$)/g, "$&-"),
  "decimal with dots": (secret) => [...Buffer.from(secret)].join("."),
  spaced: (secret) => [...secret].join(" "),
};

const base32 = (text: string): string =>
  [...Buffer.from(text)]
    .map((byte) => byte.toString(2).padStart(8, "0"))
    .join("")
    .replace(/.{1,5}/g, (bits) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"[Number.parseInt(bits.padEnd(5, "0"), 2)] ?? "");

/** Those that no search is made for: there are always more. The boundary for foreign text alone stops these. */
export const CODED_OTHERWISE: Readonly<Record<string, (secret: string) => string>> = {
  "base64 twice": (secret) => Buffer.from(Buffer.from(secret).toString("base64")).toString("base64"),
  base32,
  "base32 in small letters": (secret) => base32(secret).toLowerCase(),
  rot13: (secret) =>
    secret.replace(/[a-z]/gi, (c) => String.fromCharCode(c.charCodeAt(0) + (c.toLowerCase() < "n" ? 13 : -13))),
  binary: (secret) => [...Buffer.from(secret)].map((byte) => byte.toString(2).padStart(8, "0")).join(""),
  decimal: (secret) => [...Buffer.from(secret)].join(","),
  "reversed hex": (secret) => reversed(hex(secret)),
  "hex with lines": (secret) => hex(secret).replace(/..(?!$)/g, "$&_"),
  "letters with lines": (secret) => [...secret.toLowerCase()].join("_"),
  "its end as a number": (secret) => String(Buffer.from(secret).subarray(-5).readUIntBE(0, 5)),
};
