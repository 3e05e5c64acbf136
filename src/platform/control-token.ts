/**
 * Who may use a control plane that has a token: whoever sends it as `Authorization: Bearer TOKEN`. Compared in constant time,
 * so that nobody finds it out letter by letter.
 */
import { createHash, timingSafeEqual } from "node:crypto";

/** Visible ASCII, so that it can stand in a header as it is; as long as a guess has no chance. */
const USABLE = /^[\x21-\x7e]{16,}$/;

export const isUsableToken = (token: string): boolean => USABLE.test(token);

/** Of one length, whatever was sent: the comparison needs that, and its time says nothing of the token's length. */
const digest = (text: string): Buffer => createHash("sha256").update(text).digest();

/** Judges the value of an `Authorization` header. */
export const bearerCheck = (token: string): ((authorization: string | undefined) => boolean) => {
  const wanted = digest(token);
  return (authorization = "") => {
    const sent = /^bearer +(.*)$/i.exec(authorization)?.[1] ?? "";
    return timingSafeEqual(digest(sent), wanted);
  };
};
