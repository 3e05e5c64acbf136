/** What every way of breaking and mending must do, for tests of each: toxiproxy's API, and commands of all kinds. */
import { expect, test } from "vitest";
import type { FaultInjector } from "../fault.ts";

export type InjectorUnderTest = {
  injector: Pick<FaultInjector, "inject" | "heal"> & { status?: (signal: AbortSignal) => Promise<string> };
  /** Whether what is to be broken is whole, asked past the injector. */
  isWhole(): Promise<boolean>;
};

const inTime = (): AbortSignal => AbortSignal.timeout(60_000);

/** `open` is called in each test, for an injector on something whole. */
export const injectorSuite = (open: () => Promise<InjectorUnderTest>): void => {
  const isSaid = async ({ injector, isWhole }: InjectorUnderTest, status: "in" | "out"): Promise<void> => {
    if (injector.status !== undefined) expect(await injector.status(inTime())).toBe(status);
    expect(await isWhole()).toBe(status === "out");
  };

  test("healing is harmless where nothing is in: it can be tried beforehand", async () => {
    const one = await open();
    await one.injector.heal(inTime());
    await isSaid(one, "out");
  });

  test("in when injected, out when healed, and healing again changes nothing", async () => {
    const one = await open();
    await isSaid(one, "out");
    await one.injector.inject(inTime());
    try {
      await isSaid(one, "in");
    } finally {
      await one.injector.heal(inTime());
    }
    await isSaid(one, "out");
    await one.injector.heal(inTime());
    expect(await one.isWhole()).toBe(true);
  });

  test("a second injection is refused and leaves the first one to be healed", async () => {
    const { injector, isWhole } = await open();
    await injector.inject(inTime());
    await expect(injector.inject(inTime())).rejects.toThrow(/already in force|already disabled or has a toxic/);
    await injector.heal(inTime());
    expect(await isWhole()).toBe(true);
  });

  test("an injection that is cut off can be healed", async () => {
    const one = await open();
    await one.injector.inject(AbortSignal.abort()).catch(() => undefined);
    await one.injector.heal(inTime());
    await isSaid(one, "out");
  });
};
