/** Nights as other tools read them. */
import { deployedOf, type Trends } from "./changes.ts";

const unitOf = (name: string): string => (/_ms(?:_|$)/.test(name) ? "ms" : name.endsWith("_rps") ? "1/s" : "ratio");

/**
 * For Apache Otava (a test of `type: json`): the nights that are compared, with the figures that each of them has, because
 * it takes a series for whole. `leftOut`: the other figures.
 */
export const otavaRows = ({ nights, figures }: Trends) => {
  const compared = nights.flatMap((night, at) => (night.whyNot === null ? [{ night, at }] : []));
  const valueAt = new Map(figures.map((one) => [one, new Map(one.values.map(({ at, value }) => [at, value]))]));
  const isWhole = (values?: ReadonlyMap<number, number>) => compared.every(({ at }) => values?.has(at) === true);
  const rows = compared.map(({ night, at }) => ({
    timestamp: Math.floor(Date.parse(night.started_at) / 1000),
    attributes: { id: night.id, commit: deployedOf(night) ?? "unknown" },
    metrics: [...valueAt].flatMap(([{ name, worse }, values]) =>
      isWhole(values)
        ? [{ name, value: values.get(at), unit: unitOf(name), direction: worse === "higher" ? -1 : 1 }]
        : [],
    ),
  }));
  return { rows, leftOut: figures.filter((one) => !isWhole(valueAt.get(one))).map(({ name }) => name) };
};

/** For github-action-benchmark, which keeps nights itself: the newest one, the figures of one direction. */
export const benchmarkRows = ({ nights, figures }: Trends, worse: "higher" | "lower") => {
  const at = nights.findLastIndex(({ whyNot }) => whyNot === null);
  const night = nights[at];
  return figures.flatMap(({ name, worse: of, values }) => {
    const { value, low, high } = values.find((one) => one.at === at) ?? {};
    if (of !== worse || value === undefined || night === undefined) return [];
    const range = low == null || high == null ? {} : { range: `${low} to ${high}` };
    return [
      { name, unit: unitOf(name), value, ...range, extra: `${night.id}, ${deployedOf(night) ?? "commit unknown"}` },
    ];
  });
};
