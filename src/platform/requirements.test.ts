/** The table of README.md: each stated requirement of the specification, and a test that is really there. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";

const FOLDER = import.meta.dirname;

/** Items marked [R] in spec-checklist.md, part A. */
const RANGES =
  "1-13 15-16 20-25 31-35 40-49 59 61-62 64-66 68-77 79-81 85 90-101 112-117 124-125 129-134 143 145-147 149 151 153-154 156-157 159 161-162 166-170 172 181-188 190-202 204-206 208 210-211 213-214 216-217 224-227";
const STATED = RANGES.split(" ").flatMap((range) => {
  const [first, last = first] = range.split("-").map(Number) as [number, number?];
  return Array.from({ length: (last as number) - first + 1 }, (_, i) => first + i);
});

const rows = readFileSync(join(FOLDER, "README.md"), "utf8")
  .split("\n")
  .map((line) => /^\| (\d+) \| (.+?) \| `(.+?)` \| (.+) \|$/.exec(line))
  .filter((match) => match !== null)
  .map(([, item, requirement, file, title]) => ({
    item: Number(item),
    requirement,
    file: file as string,
    title: title as string,
  }));

describe("the table of requirements", () => {
  test("has one row for each of the 136", () => {
    expect(STATED).toHaveLength(136);
    expect(rows.map(({ item }) => item)).toEqual(STATED);
  });

  /** As a whole title or the name of a case, in quotes; a title that has the case's name in it ends or begins there. */
  const isNamed = (source: string, title: string): boolean => {
    const text = title.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    return new RegExp(`["'\`](?:[^"'\`\\n]*%\\w,?:? )?${text}(?:: %\\w)?["'\`]`).test(source);
  };

  test("names tests that are there", () => {
    const missing = rows.filter(({ file, title }) => {
      const path = join(FOLDER, file);
      return !existsSync(path) || !isNamed(readFileSync(path, "utf8"), title);
    });
    expect(missing).toEqual([]);
  });
});
