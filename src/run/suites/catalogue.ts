/** The suites that `run` knows. */
import { nightly } from "./nightly.ts";
import { smoke } from "./smoke.ts";
import { soak } from "./soak.ts";
import type { Suite } from "./suite.ts";

export const SUITES: ReadonlyMap<string, Suite> = new Map([smoke, nightly, soak].map((suite) => [suite.name, suite]));
