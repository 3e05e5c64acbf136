/**
 * Whose platform is judged. Ours implements one reading of each gap and ambiguity of the specification and is held to it;
 * of anybody else's every reading of spec-checklist.md part C is accepted. Ours is known by its own `/counts`.
 */
import type { StageFacts } from "../history/stage-facts.ts";

export const isReference = (facts: StageFacts): boolean => facts.counts !== undefined;
