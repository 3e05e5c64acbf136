/** Paths, written short: to a tenth of a unit, and those of steps from where the last one ended. A page holds thousands of them. */

/** A step begins at `x` and goes on to the next one; `null` is nothing. */
export type Step = { x: number; y: number | null };

const tenth = (value: number): number => Math.round(value * 10) / 10;

const short = (value: number): string => String(tenth(value)).replace(/^(-?)0\./, "$1.");

/** Up, down or on: nothing where it does not move. */
const moved = (direction: "h" | "v", from: number, to: number): string => {
  const by = tenth(tenth(to) - tenth(from));
  return by === 0 ? "" : `${direction}${short(by)}`;
};

const at = (x: number, y: number): string => {
  const second = short(y);
  return `M${short(x)}${second.startsWith("-") ? "" : " "}${second}`;
};

/** A straight line from each point to the next. */
export const pathThrough = (points: readonly (readonly [x: number, y: number])[]): string =>
  points.map(([x, y], i) => (i === 0 ? at(x, y) : `L${at(x, y).slice(1)}`)).join("");

/** A line over the steps up to `endX`, broken where there is nothing. */
export const stepsTo = (steps: readonly Step[], endX: number): string => {
  let d = "";
  let last: number | null = null;
  for (const [i, { x, y }] of steps.entries()) {
    if (y === null) {
      last = null;
      continue;
    }
    d += last === null ? at(x, y) : moved("v", last, y);
    // Steps of one height are one.
    let next = i + 1;
    while (next < steps.length && steps[next]?.y === y) next++;
    if (steps[i - 1]?.y !== y || last === null) d += moved("h", x, steps[next]?.x ?? endX);
    last = y;
  }
  return d;
};

/** The same steps filled down to `floorY`, each stretch by itself. */
export const areasTo = (steps: readonly Step[], endX: number, floorY: number): string => {
  let d = "";
  for (let i = 0; i < steps.length; ) {
    let end = i;
    while (end < steps.length && steps[end]?.y !== null) end++;
    if (end > i) {
      const stretch = steps.slice(i, end);
      const firstX = steps[i]?.x as number;
      d += `${stepsTo(stretch, steps[end]?.x ?? endX)}V${short(floorY)}H${short(firstX)}z`;
    }
    i = end + 1;
  }
  return d;
};
