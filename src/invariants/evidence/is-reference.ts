/**
 * Whose platform is judged. Ours implements one reading of each gap and ambiguity of the specification and is held to it;
 * of anybody else's every reading of requirements.md, part C, is accepted. The deployment states it; that it shows counts
 * or a control plane proves nothing.
 */
import type { StageFacts } from "../../history/stage-facts.ts";

export const isReference = (facts: Pick<StageFacts, "reference">): boolean => facts.reference === true;
