/** Products that are missing or none of the four (items 65, 88). */
import { outcomeOf } from "../../../contract/refusals.ts";
import { Checks } from "../../checks.ts";
import type { Rule } from "../../rule.ts";
import { inWords } from "../../sending/answer.ts";
import { exchangeCall } from "../../sending/test-call.ts";
import { json } from "./malformed-bodies.ts";

const MALFORMED = outcomeOf("malformed_body");

const WRONG_PRODUCTS: readonly { what: string; body: unknown }[] = [
  { what: "a body without a product", body: {} },
  { what: "a product that does not exist", body: { product: "floodgate-no-such-product" } },
  { what: "a product in capitals", body: { product: "CHAT" } },
  { what: "a product between spaces", body: { product: " chat " } },
  { what: "a product that is a number", body: { product: 7 } },
  { what: "a product that is null", body: { product: null } },
  { what: "a product that is a list", body: { product: ["chat"] } },
  { what: "a body that is a list", body: ["chat"] },
];

const wrongProduct = (id: string, level: "must" | "info", title: string): Rule => ({
  id,
  level,
  // With which words it is refused is a gap.
  spec: level === "must" ? [65, 88] : [88],
  title,
  phase: "bodies",
  needs: { roles: ["publishable"] },
  cost: { calls: WRONG_PRODUCTS.length, shared: "wrong products" },
  run: async (context) => {
    const checks = new Checks(level === "must" ? "a refusal" : MALFORMED);
    const answers = await context.once("wrong products", async () => {
      const all = [];
      for (const { what, body } of WRONG_PRODUCTS) {
        all.push(
          await context.send(exchangeCall("publishable", "listed", "chat", { body: json(body), what, open: true })),
        );
      }
      return all;
    });
    for (const answer of answers) {
      if (level === "info") checks.expect(answer, { accepts: [MALFORMED] });
      else if (answer.transient) checks.unclear(inWords(answer));
      else {
        const { status } = answer;
        const refused = status !== null && status >= 400 && status < 500;
        checks.require(refused, answer, "a refusal: 4xx", inWords(answer));
      }
    }
    return checks.result();
  },
});

export const WRONG_PRODUCT_RULES: readonly Rule[] = [
  wrongProduct(
    "wrong-product-is-refused",
    "must",
    "the exchange mints nothing for a product that is missing or none of the four",
  ),
  wrongProduct("wrong-product-is-422", "info", "whether the exchange answers a missing or unknown product with 422"),
];
