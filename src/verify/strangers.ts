/** Answers that another server gave in the API's place, where neither status nor body says so: told by comparison. */
import { byFrequency } from "../history/statistics/statistics.ts";
import { callInWords, type Failure, type Open } from "./checks.ts";
import { type Context, callersOf, RUNTIME_ROUTES, scopeOf } from "./context.ts";
import { type Answer, lookOf, successInWords } from "./sending/answer.ts";
import { asNobody, mint, NO_SUCH_PATH, type TestCall } from "./sending/test-call.ts";

/** An edge that gives one answer in ten gives `OFTEN` of so many in one case of 250. */
const TRIES = 4;
const OFTEN = 3;
/** With more breaches than this it is no single answer that differs. */
const FAILURES_MOST = 6;
const OWN_TRIES = 3;

/**
 * The status of a request that could not be read. An API that reads the same request in each of `TRIES` did not get it
 * whole before: proxies that use a connection again before all of a body is sent put the next request's head into it.
 */
const GARBLED = 400;

/** Whether the call may be repeated: it is charged for nothing and changes nothing. */
const mayRepeat = ({ route, product, beforeSent }: TestCall): boolean =>
  route !== "design.analyze" &&
  route !== "maps.loads" &&
  !route.startsWith("keys.") &&
  product !== "tile" &&
  !beforeSent;

/** A call that the API itself answers with such a status; `null` if none is known. */
const likeCall = ({ status, testCall: { route } }: Answer, context: Context): TestCall | null => {
  if (status === 401) return asNobody("design.styles", { once: true });
  if (status === 404) return asNobody("-", { path: NO_SUCH_PATH, once: true });
  if (status === null || status > 299) return null;
  if (route === "sdk.sessions") return context.has("publishable") ? mint("publishable", "chat", { once: true }) : null;
  if (route === "-" || !RUNTIME_ROUTES.includes(route)) return null;
  const [caller] = callersOf(context, scopeOf(route));
  return caller === undefined ? null : { ...caller, route, once: true };
};

/** The look that most of the API's own answers have. */
const ownLook = (call: TestCall, context: Context): Promise<string | undefined> =>
  context.once(`own look ${JSON.stringify(call)}`, async () => {
    const answers = await Array.fromAsync(Array(OWN_TRIES), () => context.send(call));
    const own = answers.filter(({ transient }) => !transient);
    return byFrequency(own, lookOf)[0]?.[0];
  });

/** Whether a breach rests on an answer that hardly comes again and does not look like the API's own. */
const isStrangers = async ({ steps }: Failure, context: Context): Promise<boolean> => {
  const last = steps.at(-1);
  if (last === undefined || !mayRepeat(last.testCall)) return false;
  const look = lookOf(last);
  const isGarbled = last.status === GARBLED;
  const like = isGarbled ? null : likeCall(last, context);
  const own = like === null ? undefined : await ownLook(like, context);
  if (!isGarbled && (own === undefined || own === look)) return false;
  const again = await Array.fromAsync(Array(TRIES), () => context.send({ ...last.testCall, once: true, open: true }));
  const often = isGarbled ? 1 : OFTEN;
  if (again.filter((answer) => lookOf(answer) === look).length >= often) return false;
  context.strangers.add(look);
  return true;
};

/** Says why a rule cannot be judged if another server may have given each answer that shows a breach; else `null`. */
export const openByStrangers = async (failures: readonly Failure[], context: Context): Promise<Open | null> => {
  const last = failures[0]?.steps.at(-1);
  if (last === undefined || failures.length > FAILURES_MOST) return null;
  for (const failure of failures) if (!(await isStrangers(failure, context).catch(() => false))) return null;
  const why =
    last.status === GARBLED
      ? `the same call was read in ${TRIES} more tries; does a server in front of the API pass some requests on damaged?`
      : `it hardly came again in ${TRIES} tries and does not look like the API's own answers; does a server in front of the API answer some calls in its place?`;
  const body = /^2/.test(last.outcome) ? successInWords(last) : "";
  const reason = `${callInWords(last)}${body}: ${why}`;
  return { verdict: "inconclusive", reason };
};
