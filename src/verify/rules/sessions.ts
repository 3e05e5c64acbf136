/** The exchange's answer: form and life of the token, stored style (items 2, 9, 16, 20-37, 61-69, 80, 164, 224). */

import { shapeOf } from "../../contract/foreign-text.ts";
import { isObject, parseJson } from "../../contract/refusals.ts";
import type { Product } from "../../contract/routes.ts";
import type { KeyRole } from "../../target/roles.ts";
import { type Checks, callInWords, type Judgement } from "../checks.ts";
import type { Context } from "../context.ts";
import { hintOf } from "../reach.ts";
import { type Rule, roleOf, rulesOf } from "../rule.ts";
import { type Answer, isAdmitted } from "../sending/answer.ts";
import { until } from "../sending/settling.ts";
import { inSession, mint } from "../sending/test-call.ts";
import { wait } from "../sending/throttle.ts";
import { isSpent } from "./allowance-burn.ts";

const { must, should } = rulesOf("lattice", { needs: { roles: ["publishable"] } });

/** One session of each product; tile only if the budget allows a map load. */
const mintedSpecimens = async (context: Context): Promise<Answer[]> => {
  const products: Product[] = ["chat", "editor"];
  if (context.budget.shortage("map_loads", 1)?.verdict !== "skipped") products.push("tile");
  return Promise.all(products.map((product) => context.mint("publishable", product)));
};

type Fault = Judgement<Answer>;
const mintedBy =
  (make: typeof must) =>
  (id: string, spec: number[], title: string, expected: Fault["expected"], fault: Fault["fault"]): Rule =>
    make(id, spec, {
      title,
      step: async (context, checks) => {
        const answers = (await mintedSpecimens(context)).filter(isAdmitted);
        for (const answer of answers) checks.judge(answer, answer, { expected, fault });
        return answers.length === 0 ? "no session was minted" : "no session shows it";
      },
    });
const minted = mintedBy(must);

const TOKEN = /^svc_sess_[A-Za-z0-9-]+_[\w-]+\.[\w-]+\.[\w-]+$/;
const LIFETIME_MAX_S = 1800;
const CLOCKS_DIFFER_S = 120;
/** Between two readings of one clock: dates and claims have whole seconds, and the answer takes its time. */
const ROUNDED_S = 5;

/** Seconds from the mint to the token's `exp` (RFC 7519), by the clock that gives the fewest and the most. */
const tokenLifeS = ({ fields, headers }: Answer): { fewest: number; most: number } | undefined => {
  const payload = typeof fields.session_token === "string" ? fields.session_token.split(".")[1] : undefined;
  const read = payload === undefined ? {} : parseJson(Buffer.from(payload, "base64url").toString("utf8"));
  const { iat, exp }: { iat?: unknown; exp?: unknown } = isObject(read) ? read : {};
  if (typeof exp !== "number") return undefined;
  const clocks = [Date.now() / 1000, Date.parse(headers.date ?? "") / 1000, typeof iat === "number" ? iat : Number.NaN];
  const begins = clocks.filter(Number.isFinite);
  return { fewest: Math.round(exp - Math.max(...begins)), most: Math.round(exp - Math.min(...begins)) };
};

const WAIT_MAX_S = 20;
const PAST_THE_END_MS = 2_000;

const STYLE = "basemap_style_id";
const OF_STYLE = "publishable_basemap";
const OTHER = "publishable_other_org";
const STYLE_UNSTATED =
  "no session has a style, and without credentials.publishable_basemap.basemap_style_id it may be an older revision";
/** This many organizations rarely store the same style by chance. */
const ORGANIZATIONS_MIN = 3;

const styleStated = (context: Context): string | undefined => context.keyRole(OF_STYLE)?.basemap_style_id;
const ofStyle = {
  needs: { roles: [OF_STYLE] },
  cost: { calls: 3, map_loads: 1, shared: "basemap" },
  expected: (context: Context) =>
    styleStated(context) === undefined ? `a ${STYLE}` : `${STYLE} "${styleStated(context)}"`,
} as const;

const styledSessions = async (context: Context, checks: Checks): Promise<Answer[]> => {
  const minted = await Promise.all((["chat", "editor"] as const).map((product) => context.mint(OF_STYLE, product)));
  const found = minted.filter((answer) => checks.admits(answer));
  const tile = context.budget.left("map_loads") < 1 ? null : await context.mint(OF_STYLE, "tile");
  return tile !== null && isAdmitted(tile) ? [...found, tile] : found;
};

/** Styles returned to organizations whose stored style the target file does not state. */
const stylesByOrganization = (context: Context) => {
  const declared = context.keyRole(OF_STYLE)?.org;
  const sessions = context.answers.flatMap((answer) => {
    const of = roleOf(answer.testCall);
    if (answer.testCall.route !== "sdk.sessions" || !isAdmitted(answer) || of === null) return [];
    const { org, basemap_style_id: stated } = context.keyRole(of as KeyRole) ?? {};
    if (org === undefined || org === declared || stated !== undefined) return [];
    return [{ org, style: answer.fields[STYLE], answer }];
  });
  return [...Map.groupBy(sessions, ({ org }) => org).values()];
};

// biome-ignore format: a table, a rule in a few lines
const MINTED: readonly Rule[] = [
  minted("session-token-format", [20, 21, 31], "session_token is svc_sess_{env}_{jwt}", "svc_sess_{env}_{jwt}, the JWT in three parts",
    ({ fields: { session_token: token } }) =>
      typeof token === "string" && TOKEN.test(token) ? null : `it was ${shapeOf(token)}`),
  minted("session-expires-in", [23, 24, 32, 36, 224], "expires_in is a number above 0 and at most 1800 seconds", `a number in (0, ${LIFETIME_MAX_S}]`,
    ({ fields: { expires_in: value } }) =>
      typeof value === "number" && value > 0 && value <= LIFETIME_MAX_S ? null : `it was ${shapeOf(value)}`),
  minted("session-product", [33], "product is the product that was asked for", ({ testCall }) => `"${testCall.product}"`,
    ({ fields: { product }, testCall }) => (product === testCall.product ? null : `it was ${shapeOf(product)}`)),
  minted("session-lifetime-is-bounded", [24, 224], "a token whose own end can be read ends within 30 minutes", `an end at most ${LIFETIME_MAX_S} s away`,
    (answer, checks) => {
      const leftS = tokenLifeS(answer)?.fewest;
      if (leftS === undefined) return void checks.note("the token does not say when it ends");
      return leftS <= LIFETIME_MAX_S + CLOCKS_DIFFER_S ? null : `it ends in ${leftS} s`;
    }),
  // A should, because a client takes the token for opaque: the deployment may go by something else than its `exp`.
  mintedBy(should)("session-end-fits-expires-in", [23, 32], "a token whose own end can be read does not end before expires_in has passed",
    ({ fields }) => `an end at least ${shapeOf(fields.expires_in)} s away`,
    (answer) => {
      const leftS = tokenLifeS(answer)?.most ?? Number.POSITIVE_INFINITY;
      return !(leftS + ROUNDED_S < Number(answer.fields.expires_in)) ? null : `it ends in ${leftS} s`;
    }),
  must("session-basemap-style-absent", [16, 34], {
    title: "basemap_style_id is a text, or absent; never null or empty", cost: { calls: 1 },
    step: async (context, checks) => {
      // Where the first organization stored a style, the other may have none.
      const others = context.has(OTHER) ? [await context.mint(OTHER, "chat")] : [];
      for (const answer of [...(await mintedSpecimens(context)), ...others].filter(isAdmitted)) {
        const { [STYLE]: value } = answer.fields;
        const fits = !(STYLE in answer.fields) || (typeof value === "string" && value !== "");
        checks.require(fits, answer, "a text, or no such field", `it was ${shapeOf(value)}`);
      }
      return "no session was minted";
    } }),
];

export const SESSION_RULES: readonly Rule[] = [
  must("exchange-mints", [2, 9, 37, 64, 65, 69, 80], {
    title: "the exchange mints chat, editor and tile for a full key of a Pro organization from its Origin",
    expected: "200 or 201",
    cost: { map_loads: 1 },
    step: async (context, checks) => {
      // Two organizations that used up their allowances before the run are unlikely, so a second one is asked.
      const isSpentElsewhere = async (): Promise<boolean> =>
        context.has(OTHER) && isSpent(await context.mint(OTHER, "tile"));
      for (const answer of await mintedSpecimens(context)) {
        const { status, outcome, testCall } = answer;
        if (testCall.product === "tile" && isSpent(answer) && !(await isSpentElsewhere())) {
          checks.unclear(`${callInWords(answer)}: the organization's map loads of this month seem to be spent`);
          continue;
        }
        const hint = checks.admits(answer) ? null : hintOf(answer, "publishable", context);
        if (hint !== null) checks.note(hint);
        // 204 or 202 would carry no session.
        if (/^2\d\d$/.test(outcome) && status !== 200 && status !== 201)
          checks.require(false, answer, "200 or 201", `it was ${status}`);
      }
    },
  }),
  ...MINTED,
  must("session-ends", [23, 32, 61, 164], {
    title: "a session is answered 401 once expires_in has passed, where that is soon enough to wait for",
    cost: { calls: 1 },
    step: async (context, checks) => {
      const made = await context.send(mint("publishable", "chat"));
      const { session_token: value, expires_in: lifeS } = made.fields;
      if (!isAdmitted(made) || typeof value !== "string" || typeof lifeS !== "number") return "no session";
      if (lifeS > WAIT_MAX_S) return checks.idle(`sessions live ${lifeS} s, too long to wait for`);
      await wait(lifeS * 1000 + PAST_THE_END_MS, context.signal);
      const beganMs = performance.now();
      const ended = inSession("chat", "poi.enrich", {
        secret: { value, variable: "$ENDED_SESSION" },
        facts: { state: "expired" },
        what: "a session past its end",
      });
      // Item 29: clocks may differ.
      const after = await until(context, ended, "unauthenticated", beganMs + context.leewayMs);
      const lateS = Math.round((performance.now() - beganMs) / 1000) + PAST_THE_END_MS / 1000;
      if (checks.expect(after, "unauthenticated", [made])) checks.note(`the session ended at most ${lateS} s late`);
    },
  }),
  must("session-basemap-style", [34], {
    title: "basemap_style_id, where it is returned, is the style that the organization stored",
    ...ofStyle,
    step: async (context, checks) => {
      const style = styleStated(context);
      const wanted = style === undefined ? "the stored style, a text" : `"${style}"`;
      for (const answer of await styledSessions(context, checks)) {
        const value = answer.fields[STYLE];
        const fits = value === undefined || (style === undefined ? typeof value === "string" : value === style);
        checks.require(fits, answer, wanted, `it was ${shapeOf(value)}`);
      }
    },
  }),
  must("session-basemap-style-is-returned", [16, 34], {
    title: "a style that the organization stored is returned with each of its sessions, whatever the product",
    ...ofStyle,
    step: async (context, checks) => {
      const style = styleStated(context);
      const sessions = await styledSessions(context, checks);
      // An older revision returns no style at all (item 16).
      const isOlder = style === undefined && !checks.failed && !sessions.some(({ fields }) => STYLE in fields);
      for (const answer of isOlder ? [] : sessions) {
        const got = `its fields were ${shapeOf(answer.fields)}`;
        checks.require(STYLE in answer.fields, answer, style === undefined ? STYLE : `${STYLE} "${style}"`, got);
      }
      return STYLE_UNSTATED;
    },
  }),
  // A should, because every organization may have stored the same style, which cannot be seen from outside.
  rulesOf("every-answer").should("session-basemap-style-is-no-default", [34, 35], {
    title: "a style is returned where one is stored, and not the same one to every organization",
    expected: "no basemap_style_id for an organization that stored none",
    step: async (context, checks) => {
      const organizations = stylesByOrganization(context);
      if (organizations.length < ORGANIZATIONS_MIN)
        return checks.idle("sessions of three organizations without a stated style");
      const styles = new Set(organizations.flat().map(({ style }) => style));
      const [style] = styles;
      const last = organizations.flat().at(-1)?.answer;
      const got = `each of ${organizations.length} organizations got ${shapeOf(style)}`;
      const isDefault = styles.size === 1 && typeof style === "string";
      if (last !== undefined) checks.require(!isDefault, last, "no style, unless each of them stored the same", got);
    },
  }),
];
