/** What every way of breaking and mending must do, for tests of each: toxiproxy's API, and commands of all kinds. */
import { expect, test } from "vitest";
import type { FaultPort } from "./fault-port.ts";

export type PortUnderTest = {
  port: FaultPort;
  /** Whether what is to be broken is whole, asked past the port. */
  isWhole(): Promise<boolean>;
};

const inTime = (): AbortSignal => AbortSignal.timeout(10_000);

/** `open` is called in each test, for a port on something whole. */
export const faultPortSuite = (open: () => Promise<PortUnderTest>): void => {
  test("healing is harmless where nothing is in: it can be tried beforehand", async () => {
    const { port, isWhole } = await open();
    await port.heal(inTime());
    expect(await port.status(inTime())).toBe("out");
    expect(await isWhole()).toBe(true);
  });

  test("in when injected, out when healed, and healing again changes nothing", async () => {
    const { port, isWhole } = await open();
    expect(await port.status(inTime())).toBe("out");
    await port.inject(inTime());
    try {
      expect(await port.status(inTime())).toBe("in");
      expect(await isWhole()).toBe(false);
    } finally {
      await port.heal(inTime());
    }
    expect(await port.status(inTime())).toBe("out");
    expect(await isWhole()).toBe(true);
    await port.heal(inTime());
    expect(await isWhole()).toBe(true);
  });

  test("a second injection is refused and leaves the first one to be healed", async () => {
    const { port, isWhole } = await open();
    await port.inject(inTime());
    await expect(port.inject(inTime())).rejects.toThrow(/already|not whole/);
    await port.heal(inTime());
    expect(await isWhole()).toBe(true);
  });

  test("an injection that is cut off can be healed", async () => {
    const { port, isWhole } = await open();
    await port.inject(AbortSignal.abort()).catch(() => undefined);
    await port.heal(inTime());
    expect(await port.status(inTime())).toBe("out");
    expect(await isWhole()).toBe(true);
  });
};
