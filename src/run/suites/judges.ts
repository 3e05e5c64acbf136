/** Which invariants judge what kind of stage. A stage is judged only by what it can reach. */
export const EVERYWHERE = [
  "first-failing-check-decides",
  "envelope-fits-subcode",
  "tells-when-to-retry",
  "counts-agree",
];
export const STREAMS = ["streams-end-once", "streams-cut", "slots-are-given-back"];
export const METERS = ["refused-is-not-charged", "charged-once", "admits-at-most-the-allowance"];
