/** The numbered requirements, and which tests cite them: read from the sources, so that no list is kept by hand. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** The requirements by number, each with its tag: `[R]` stated, `[A]` ambiguous, `[G]` a gap. */
export const requirements = (): Map<number, string> => {
  const text = readFileSync(join(ROOT, "src/contract/requirements.md"), "utf8");
  return new Map(
    [...text.matchAll(/^(\d+)\. (\[[RGA]\] .*)$/gm)].map(([, item, what]) => [Number(item), what as string]),
  );
};

/** `61, 153, 31-33` as numbers. */
const numbersIn = (list: string): number[] =>
  list.split(",").flatMap((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return Array.from({ length: last - first + 1 }, (_, at) => first + at);
  });

/** Titles of tests and of their cases that end in `(item 5)` or `(items 61, 153, 31-33)`, by number, each with its file. */
export const testsByItem = (): Map<number, string[]> => {
  const found = new Map<number, string[]>();
  for (const folder of ["src", "properties"]) {
    for (const name of readdirSync(join(ROOT, folder), { recursive: true, encoding: "utf8" }).sort()) {
      if (!name.endsWith(".test.ts")) continue;
      const path = join(folder, name);
      const titles = readFileSync(join(ROOT, path), "utf8").matchAll(
        /["'`]([^"'`\n]*\(items? ([\d, -]+)\)[^"'`\n]*)["'`]/g,
      );
      for (const [, title, items] of titles) {
        for (const item of numbersIn(items as string)) {
          found.set(item, [...(found.get(item) ?? []), `${path}: ${title}`]);
        }
      }
    }
  }
  return found;
};
