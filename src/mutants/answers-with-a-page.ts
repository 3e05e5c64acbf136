/** A server behind a balancer that is gone now and then: the balancer answers in its place, in words of its own. */
import type { Mutant } from "./mutant.ts";

const EACH = 8;
const PAGE = "<html><body><h1>502 Bad Gateway</h1></body></html>";

export const answersWithAPage: Mutant = {
  name: "answers-with-a-page",
  harm: "a part of the calls never reaches the API, and what is judged is the rest alone",
  kills: ["answered"],
  stage: "answers",
  spoil: (healthy) => {
    let n = 0;
    return {
      ...healthy,
      writeAnswer: (response, status, headers, body) => {
        n += 1;
        if (n % EACH !== 0) return healthy.writeAnswer(response, status, headers, body);
        const own = ["content-type", "text/html", "content-length", `${PAGE.length}`];
        healthy.writeAnswer(response, 502, own, PAGE);
      },
    };
  },
};
