/** P9: the choice of a style is total (some style always comes out) and left-biased (a later source never overrules). */
import fc from "fast-check";
import { expect } from "vitest";
import { law } from "./laws/law.ts";
import { chooseStyle, DEFAULT_STYLE, type StyleChoice } from "./model/style-precedence.ts";

const RUNS = { quick: 500, nightly: 50_000 };
const givenArb = fc.string({ minLength: 1 });
const maybeArb = fc.oneof(givenArb, fc.constantFrom(undefined, null, ""));
const choiceArb = fc.record({ styleUrl: maybeArb, styleId: maybeArb, basemap_style_id: maybeArb });
/** Absent and `undefined` are one: an SDK spreads options together. */
const asChoice = (choice: Record<string, string | null | undefined>): StyleChoice => choice as StyleChoice;

law(
  "P9 a style always comes out, and it is the first that was given (item 35)",
  () =>
    fc.property(choiceArb, (choice) => {
      const style = chooseStyle(asChoice(choice));
      const first = [choice.styleUrl, choice.styleId, choice.basemap_style_id].find((given) => given) ?? DEFAULT_STYLE;
      expect(style).toEqual(choice.styleUrl ? { url: first } : { id: first });
    }),
  RUNS,
);

law(
  "P9 what stands behind the first given source has no say",
  () =>
    fc.property(givenArb, choiceArb, choiceArb, (given, one, two) => {
      expect(chooseStyle(asChoice({ ...one, styleUrl: given }))).toEqual(
        chooseStyle(asChoice({ ...two, styleUrl: given })),
      );
      const noUrl = { styleUrl: undefined, styleId: given };
      expect(chooseStyle(asChoice({ ...one, ...noUrl }))).toEqual(chooseStyle(asChoice({ ...two, ...noUrl })));
    }),
  RUNS,
);

law(
  "P9 leaving out a source that gave nothing changes nothing",
  () =>
    fc.property(choiceArb, (choice) => {
      const given = Object.fromEntries(Object.entries(choice).filter(([, value]) => value));
      expect(chooseStyle(asChoice(given))).toEqual(chooseStyle(asChoice(choice)));
    }),
  RUNS,
);
