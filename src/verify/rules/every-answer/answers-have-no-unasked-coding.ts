/** No answer is compressed that was asked for as it is (RFC 9110, section 12.5.3; the specification does not speak of it). */
import { foreignName } from "../../../contract/foreign-text.ts";
import { codingOf } from "../../sending/decoding.ts";
import { everyAnswer } from "./every-answer.ts";

export const unaskedCodings = everyAnswer(
  {
    id: "answers-have-no-unasked-coding",
    level: "should",
    spec: [178],
    title: "an answer that was asked for without a content coding has none",
  },
  ({ status, request }) => status !== null && request.headers["accept-encoding"] === "identity",
  (checks, answer) => {
    const coding = codingOf(answer.headers);
    checks.require(coding === "", answer, "no content-encoding, as asked for", `it came as ${foreignName(coding)}`);
  },
  "no answer was asked for without a coding",
);
