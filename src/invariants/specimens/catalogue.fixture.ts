/** Specimens by the id of the invariant that they are for. */
import * as charging from "./charging.fixture.ts";
import * as decision from "./decision.fixture.ts";
import * as faults from "./faults.fixture.ts";
import * as overload from "./overload.fixture.ts";
import type { Specimens } from "./specimen.fixture.ts";
import * as streams from "./streams.fixture.ts";

/** `sheds-only-over-the-cap` for `shedsOnlyOverTheCap`. */
const idOf = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`);

export const SPECIMENS: ReadonlyMap<string, Specimens> = new Map(
  Object.entries({ ...decision, ...charging, ...overload, ...streams, ...faults }).map(([name, specimens]) => [
    idOf(name),
    specimens,
  ]),
);
