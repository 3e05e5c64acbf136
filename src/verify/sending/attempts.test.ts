import { expect, test } from "vitest";
import { createLanes } from "./attempts.ts";

test("no more are under way than there are lanes, in the order in which they came", async () => {
  const lanes = createLanes(2);
  let [now, most] = [0, 0];
  const order: number[] = [];
  await Promise.all(
    Array.from({ length: 9 }, async (_, i) => {
      await lanes.take();
      order.push(i);
      now += 1;
      most = Math.max(most, now);
      await new Promise((resolve) => setImmediate(resolve));
      now -= 1;
      lanes.giveBack();
    }),
  );
  expect(most).toBe(2);
  expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
});
