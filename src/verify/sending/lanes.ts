/**
 * No more calls under way than there are connections: one more would wait inside our own client, and the time that it waits
 * there would be taken for the deployment's.
 */
type Lanes = {
  /** Resolves when a connection is free; what is given back frees it, once. */
  take(): Promise<() => void>;
};

export const createLanes = (count: number): Lanes => {
  let free = Math.max(1, count);
  const waiting: (() => void)[] = [];
  const giveBack = (): void => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  return {
    take: async () => {
      if (free > 0) free -= 1;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      let isTaken = true;
      return () => {
        if (isTaken) giveBack();
        isTaken = false;
      };
    },
  };
};
