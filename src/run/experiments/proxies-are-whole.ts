/**
 * Before anything is broken on somebody's toxiproxy: the proxies of the target file have to be whole. A fault on top of
 * another one would be judged for both, and healing would have to choose.
 */
import { dirname } from "node:path";
import { hasOurToxics } from "../../faults/healing.ts";
import { GuardError, type PreparedTarget } from "../../stages/prepare-target.ts";
import type { Target } from "../../target/target.ts";
import { isSameTarget } from "../../target/target-urls.ts";
import { openToxiproxy, type ProxyState } from "../../tools/toxiproxy.ts";
import { ToxiproxyError } from "../../tools/toxiproxy-transport.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";
import { UsageError } from "../exit-codes.ts";
import { leftOpenUnder, partsOnTargets } from "./left-open.ts";
import { howToHeal } from "./nothing-left-broken.ts";

const CALL_MS = 3_000;

type Suspect = Pick<PreparedTarget, "file" | "target">;

const whatIsWrong = ({ enabled, toxics }: ProxyState): string[] => [
  ...(enabled ? [] : ["it is disabled"]),
  ...toxics.map(({ name, type }) => `it has the toxic "${name}" (${type})`),
];

/** The run whose fault it is, by its journal. */
const ownerOf = (target: Target, proxy: string, reports: string) =>
  leftOpenUnder(reports).findLast(({ faults }) =>
    faults
      .flatMap(({ undo }) => partsOnTargets(undo))
      .some((part) => part.how === "heal-proxy" && isSameTarget(part.target, target) && part.proxy === proxy),
  );

const adviceFor = (state: ProxyState, { file, target }: Suspect, reports: string): string => {
  const owner = ownerOf(target, state.name, reports);
  if (owner?.isRunning === true) return `the run of ${dirname(owner.journal)} is still going and heals it by itself`;
  if (owner !== undefined) return `an earlier run left it (${dirname(owner.journal)}): ${howToHeal(file)}`;
  return hasOurToxics(state)
    ? `by its name a floodgate put it there: ${howToHeal(file)}`
    : "somebody else did that, so it is not touched: mend it, or name another proxy";
};

/** Throws `GuardError` where a proxy is not whole, `UsageError` where it is not there, `TargetUnreachableError` where toxiproxy is not. */
export const requireWholeProxies = async (
  suspect: Suspect,
  links: ReadonlySet<string>,
  reports: string,
): Promise<void> => {
  const { toxiproxy: stated } = suspect.target;
  if (stated === undefined) return;
  const toxiproxy = openToxiproxy(stated.api_url, { callMs: CALL_MS });
  const reasons: string[] = [];
  try {
    for (const [link, name] of Object.entries(stated.proxies ?? {})) {
      if (name === undefined || !links.has(link)) continue;
      const state = await toxiproxy.proxy(name).read();
      const wrong = whatIsWrong(state);
      if (wrong.length === 0) continue;
      reasons.push(
        `toxiproxy.proxies.${link}: the proxy "${name}" is not whole: ${wrong.join(", ")}. ${adviceFor(state, suspect, reports)}`,
      );
    }
  } catch (error) {
    if (error instanceof ToxiproxyError && error.status === 404) {
      throw new UsageError(`expected the proxies of \`toxiproxy.proxies\` to exist, but ${error.message}`);
    }
    throw new TargetUnreachableError(`the toxiproxy of the target file cannot be used: ${(error as Error).message}`);
  } finally {
    await toxiproxy.close();
  }
  if (reasons.length > 0) throw new GuardError(reasons);
};
