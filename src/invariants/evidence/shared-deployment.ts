/**
 * What is not known of a deployment that others call as well. A judge that needs all that is in flight, or all that was
 * charged, has no say there: what looks like a shed or a refusal for nothing may be another caller's doing. It is skipped
 * and not inconclusive, because no longer run would settle it; only the owner can, by keeping the others away.
 */
import { type Found, skipped } from "../invariant.ts";

/** `why`: what another caller may have done, as half a sentence. */
export const skippedWhenShared = (why: string): Found =>
  skipped(`"exclusive": true in the target file, which does not state that nobody else calls it; ${why}`);

/**
 * Whether a call's organization is not known: it has no valid credential, or the target file does not name the
 * organization of its role (workload/callers/target-view.ts). Such a call may be of any organization.
 */
export const isUnnamed = (org: string): boolean => org === "-" || org.startsWith("role:");
