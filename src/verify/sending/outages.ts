/**
 * A short maintenance (items 213, 216) is no reason to leave calls unjudged: what was admitted before and is away now is looked
 * for once a second, by one for all, before anybody gives up. Whoever has never been admitted is not waited for, nor is one
 * that did not come back, until it is admitted once more.
 */
import type { TestCall } from "./test-call.ts";

/** A deployment that starts again is back by then. */
const LASTS_MAX_MS = 15_000;
const LOOK_EVERY_MS = 1_000;

type Outages = {
  /** This call was admitted. */
  seenUp(testCall: TestCall): void;
  /** Whether this call is admitted again, within some seconds. */
  end(testCall: TestCall): Promise<boolean>;
};

type OutageParts = {
  isUp(testCall: TestCall): Promise<boolean>;
  /** Whether so much patience was left; it is used up then. */
  rest(ms: number): Promise<boolean>;
};

const nameOf = ({ route, credential }: TestCall): string => `${route} ${JSON.stringify(credential)}`;

export const createOutages = ({ isUp, rest }: OutageParts): Outages => {
  const up = new Set<string>();
  const running = new Map<string, Promise<boolean>>();
  const look = async (testCall: TestCall): Promise<boolean> => {
    const endMs = performance.now() + LASTS_MAX_MS;
    while (performance.now() < endMs && (await rest(LOOK_EVERY_MS))) {
      if (await isUp(testCall)) return true;
    }
    up.delete(nameOf(testCall));
    return false;
  };
  return {
    seenUp: (testCall) => {
      up.add(nameOf(testCall));
    },
    end: (testCall) => {
      const name = nameOf(testCall);
      if (!up.has(name)) return Promise.resolve(false);
      const found = running.get(name) ?? look(testCall).finally(() => running.delete(name));
      running.set(name, found);
      return found;
    },
  };
};
