/**
 * Before anything is broken on somebody's toxiproxy: the proxies of the target file have to be whole. A fault on top of
 * another one would be judged for both, and healing would have to choose.
 */
import { dirname } from "node:path";
import { TOXIC_PREFIX } from "../../chaos/fault.ts";
import { openToxiproxy, type ProxyState } from "../../chaos/toxiproxy.ts";
import { ToxiproxyError } from "../../chaos/toxiproxy-transport.ts";
import type { Target } from "../../target/target.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";
import { UsageError } from "../exit-codes.ts";
import { GuardError } from "../prepare-target.ts";
import { journalsIn, leftOpenIn } from "./left-open.ts";

const CALL_MS = 3_000;

const whatIsWrong = ({ enabled, toxics }: ProxyState): string[] => [
  ...(enabled ? [] : ["it is disabled"]),
  ...toxics.map(({ name, type }) => `it has the toxic "${name}" (${type})`),
];

/** The run whose fault it is, by its journal. */
const ownerOf = (apiUrl: string, proxy: string, reports: string) =>
  journalsIn(reports)
    .map(leftOpenIn)
    .findLast(({ faults }) =>
      faults.some(({ undo }) => undo.how === "heal-proxy" && undo.api_url === apiUrl && undo.proxy === proxy),
    );

const adviceFor = (state: ProxyState, apiUrl: string, reports: string): string => {
  const owner = ownerOf(apiUrl, state.name, reports);
  if (owner?.isRunning === true) return `the run of ${dirname(owner.journal)} is still going and heals it by itself`;
  if (owner !== undefined) {
    return `an earlier run left it (${dirname(owner.journal)}): \`npx floodgate chaos --heal\` takes it back, and so does --heal with this command`;
  }
  const isOurs = state.toxics.some(({ name }) => name.startsWith(TOXIC_PREFIX));
  return isOurs
    ? "by its name a floodgate put it there, whose run folder is not under reports/runs: `npx floodgate chaos --heal --out DIR` with that folder takes it back"
    : "somebody else did that, so it is not touched: mend it, or name another proxy";
};

/** Throws `GuardError` where a proxy is not whole, `UsageError` where it is not there, `TargetUnreachableError` where toxiproxy is not. */
export const requireWholeProxies = async (
  { toxiproxy: stated }: Target,
  links: ReadonlySet<string>,
  reports: string,
): Promise<void> => {
  if (stated === undefined) return;
  const toxiproxy = openToxiproxy(stated.api_url, { callMs: CALL_MS });
  const reasons: string[] = [];
  try {
    for (const [link, name] of Object.entries(stated.proxies)) {
      if (name === undefined || !links.has(link)) continue;
      const state = await toxiproxy.proxy(name).read();
      const wrong = whatIsWrong(state);
      if (wrong.length === 0) continue;
      reasons.push(
        `toxiproxy.proxies.${link}: the proxy "${name}" is not whole: ${wrong.join(", ")}. ${adviceFor(state, stated.api_url, reports)}`,
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
