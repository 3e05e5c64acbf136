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
  spaced: (secret) => [...secret].join(" "),
};
