/** Mistakes in the target file that may explain a refusal. It stays a failure, because the deployment may be wrong as well. */
import { outcomeOf } from "../contract/refusals.ts";
import type { KeyRole } from "../target/target.ts";
import type { Context } from "./context.ts";
import type { Answer } from "./sending/answer.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");
const ADDRESS = outcomeOf("ip_not_allowed");

/** Returns a question to the user; `null` if the target file cannot be the cause. `of`: the role whose key was sent. */
export const hintOf = ({ outcome, status }: Answer, of: KeyRole, context: Context): string | null => {
  if (status === 401) return `does the deployment know the key of the role ${of}?`;
  if (outcome === ADDRESS) return `may the key of the role ${of} be used from this machine's address?`;
  if (outcome !== MISMATCH) return null;
  const origin = context.keyRole(of)?.origin;
  if (origin === undefined)
    return `the role ${of} has no origin in the target file: which one is in its key's allowlist?`;
  return `is ${origin}, the origin of the role ${of} in the target file, in its key's allowlist?`;
};
