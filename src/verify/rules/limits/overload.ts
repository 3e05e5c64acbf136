/**
 * More streams at once than a cap allows (items 170, 183, 210, 211, 221-223): with `--allow-load`, inside `load_max_rps`. Which
 * numbers hold may not be stated, so these rules look at how a cap is reported and whom it concerns.
 */
import { Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import { DOWN, forWantOfConnections, type Overload, overload, SHED, wave } from "../../limits/load-burst.ts";
import { type Answer, inWords, isAdmitted } from "../../sending/answer.ts";
import { wait } from "../../sending/throttle.ts";
import { CALM_MS, loadRule, needs, requireLimits, wavesCost } from "./load-rule.ts";

/** More of a wave than a network loses, or a service that stumbles now and then: one wave alone decides nothing. */
const BAD_MIN = 2;

type Doubt = { what: string; isBad(answer: Answer): boolean; share: number };

const isMuch = (answers: readonly Answer[], { isBad, share }: Doubt): boolean =>
  answers.filter(isBad).length > Math.max(BAD_MIN, answers.length * share);

/** In place of a refusal: a lone call is served, half the wave is served whole, the whole wave shows it again. */
const showsAgain = async (context: Context, doubt: Doubt): Promise<Answer | null> => {
  const { isBad } = doubt;
  const { caller, bySize } = await overload(context);
  const bad = [...bySize].find(([, answers]) => isMuch(answers, doubt));
  if (caller === null || bad === undefined) return null;
  const [size, first] = bad;
  const served = first.filter(isAdmitted).length;
  if (served < 2) return null;
  for (const calmly of [1, Math.floor(served / 2)]) {
    await wait(CALM_MS, context.signal);
    const calm = await wave(context, calmly, [caller]);
    if (calm.some(isBad) || !calm.some(isAdmitted)) return null;
  }
  await wait(CALM_MS, context.signal);
  const second = await wave(context, size, [caller]);
  return isMuch(second, doubt) ? (second.findLast(isBad) ?? null) : null;
};

/** How a call over a cap may be distinguished from refusals only by looking twice. */
const DOUBTFUL: readonly Doubt[] = [
  { what: "calls had no answer", isBad: ({ status }) => status === null, share: 0.05 },
  { what: "calls were answered that something is down", isBad: ({ outcome }) => DOWN.test(outcome), share: 0.15 },
];

export const capNotMet = (context: Context, { size }: Overload): string =>
  [`no cap was met with ${size} streams at once`, forWantOfConnections(context)].filter(Boolean).join("; ");

export const overloadIsTold = loadRule({
  id: "overload-is-reported",
  level: "must",
  spec: [183, 210, 211, 223],
  title: "calls over the caps are answered 429 b2b_overloaded or org_overloaded, and nothing else goes wrong",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("2xx or a limit's own subcode, in a flat body");
    const found = await overload(context);
    const { reached, answers, bySize } = found;
    requireLimits(checks, answers);
    for (const answer of answers) {
      if (!SHED.test(answer.outcome)) continue;
      checks.require(
        answer.envelope === "flat",
        answer,
        `{"error": "${answer.subcode}"} without detail`,
        `it was ${answer.envelope}`,
      );
    }
    let isDoubtful = false;
    for (const doubt of DOUBTFUL) {
      if (![...bySize.values()].some((one) => isMuch(one, doubt))) continue;
      isDoubtful = true;
      const bad = answers.filter(doubt.isBad);
      const what = `${bad.length} of ${answers.length} ${doubt.what}: ${inWords(bad[0] as Answer)}`;
      const last = await showsAgain(context, doubt);
      if (last === null) checks.unclear(what);
      else checks.require(false, last, "429 for calls over a cap", `${what}; again in a second burst, and not in calm`);
    }
    if (!isDoubtful && !reached && !checks.failed) {
      return new Checks(overloadIsTold.title).result(capNotMet(context, found));
    }
    return checks.result();
  },
});

export const overloadSparesOthers = loadRule({
  id: "overload-spares-others",
  level: "must",
  spec: [211],
  title: "one organization's overload is not reported to another as its own",
  needs: { permission: "load", roles: ["publishable_other_org"], anyOf: needs.anyOf },
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("no org_overloaded for an organization that is quiet");
    const found = await overload(context);
    const { reached, others } = found;
    if (!reached) return checks.result(capNotMet(context, found));
    for (const answer of others) {
      checks.require(answer.subcode !== "org_overloaded", answer, "no org_overloaded", inWords(answer));
    }
    return checks.result("nobody else called meanwhile");
  },
});

/** Fewer may be others' traffic. */
const MISNAMED_MIN = 3;
/** Over a small cap a wave has few calls: so many waves more. */
const MORE_WAVES = 3;

const isShed = ({ outcome }: Answer): boolean => SHED.test(outcome);
const isGlobal = ({ subcode }: Answer): boolean => subcode === "b2b_overloaded";

/** Where a few were named wrongly and none rightly: waves between the two caps, until there are enough or one is right. */
const moreBetween = async (context: Context, shed: readonly Answer[], size: number): Promise<Answer[]> => {
  const { caller } = await overload(context);
  const all = [...shed];
  for (let at = 0; at < MORE_WAVES; at += 1) {
    if (caller === null || all.length === 0 || all.length >= MISNAMED_MIN || !all.every(isGlobal)) break;
    await wait(CALM_MS, context.signal);
    all.push(...(await wave(context, size, [caller])).filter(isShed));
  }
  return all;
};

export const overloadNamesTheCap = loadRule({
  id: "overload-names-the-cap",
  level: "must",
  spec: [210, 211, 221],
  title: "one organization over its own cap, below the global one, is answered org_overloaded",
  cost: wavesCost,
  run: async (context) => {
    const checks = new Checks("org_overloaded, and no b2b_overloaded, for fewer calls than the global cap");
    const { global_in_flight: globalCap, org_in_flight: orgCap, replicas = 1 } = context.target.limits ?? {};
    if (context.target.shedding !== "fixed" || globalCap === undefined || orgCap === undefined) {
      return checks.result("fixed shedding with limits.global_in_flight and limits.org_in_flight in the target file");
    }
    if (replicas > 1) return checks.result("one replica: with more, nobody knows which of them was full");
    const { bySize } = await overload(context);
    for (const [size, answers] of bySize) {
      // One call of another organization comes beside them.
      if (size <= orgCap || size + 1 >= globalCap) continue;
      const shed = await moreBetween(context, answers.filter(isShed), size);
      const global = shed.filter(isGlobal);
      const last = global.at(-1);
      // Others may fill the deployment at any moment: a few such answers among the right ones are theirs.
      const rest = shed.length - global.length;
      if (last === undefined) for (const _ of shed) checks.fine();
      else if (rest === 0 && global.length >= MISNAMED_MIN) {
        const got = `${global.length} times ${inWords(last)}`;
        checks.require(false, last, `org_overloaded for ${size} calls of one organization`, got);
      } else if (rest > global.length) checks.note(`b2b_overloaded among them ${global.length} times`);
      else {
        const names = rest === 0 ? "no other name came" : "both names came";
        checks.unclear(`${names} for ${size} calls of one organization, b2b_overloaded ${global.length} times`);
      }
    }
    const want = forWantOfConnections(context, globalCap);
    return checks.result(["no wave came between the two caps", want].filter(Boolean).join("; "));
  },
});
