/**
 * `basemap_style_id` of a session (items 16, 34): reported where the organization stored a canvas, absent where it did not. Which
 * of the two holds, only the target file says: who states the style in it also says that this revision reports styles.
 */
import { shapeOf } from "../../../contract/foreign-text.ts";
import type { KeyRole } from "../../../target/target.ts";
import { ANY_SUCCESS, Checks } from "../../checks.ts";
import type { Context } from "../../context.ts";
import type { Rule } from "../../rule.ts";
import type { RuleResult } from "../../rule-result.ts";
import { type Answer, isAdmitted } from "../../sending/answer.ts";
import { mintedSpecimens } from "./exchange-mints.ts";

const NAME = "basemap_style_id";

const absent: Rule = {
  id: "session-basemap-style-absent",
  level: "must",
  spec: [16, 34],
  title: "basemap_style_id is a text, or absent; never null or empty",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cost: { calls: 0 },
  run: async (context) => {
    const checks = new Checks(absent.title);
    for (const answer of await mintedSpecimens(context)) {
      if (!isAdmitted(answer)) continue;
      const value = answer.fields[NAME];
      const fits = !(NAME in answer.fields) || (typeof value === "string" && value !== "");
      checks.require(fits, answer, "a text, or no such field", `it was ${shapeOf(value)}`);
    }
    return checks.result("no session was minted");
  },
};

const OF = "publishable_basemap";

/** Chat and editor must be minted; tile is looked at where it is, since nothing says that this key may. */
const sessions = async (context: Context, checks: Checks): Promise<Answer[]> => {
  const found: Answer[] = [];
  for (const product of ["chat", "editor"] as const) {
    const answer = await context.mint(OF, product);
    if (checks.expect(answer, { accepts: [ANY_SUCCESS] })) found.push(answer);
  }
  if (context.budget.left("map_loads") < 1) return found;
  const tile = await context.mint(OF, "tile");
  return isAdmitted(tile) ? [...found, tile] : found;
};

const stored: Rule = {
  id: "session-basemap-style",
  level: "must",
  spec: [34],
  title: "basemap_style_id, where it is returned, is the style that the organization stored",
  phase: "lattice",
  needs: { roles: [OF] },
  cost: { calls: 3, map_loads: 1, shared: "basemap" },
  run: async (context) => {
    const style = context.keyRole(OF)?.basemap_style_id;
    const checks = new Checks(style === undefined ? `a ${NAME}` : `${NAME} "${style}"`);
    for (const answer of await sessions(context, checks)) {
      const value = answer.fields[NAME];
      const fits = value === undefined || (style === undefined ? typeof value === "string" : value === style);
      checks.require(fits, answer, `"${style ?? "a stored style"}"`, `it was ${shapeOf(value)}`);
    }
    return checks.result();
  },
};

const UNSTATED =
  "no session has a style, and without credentials.publishable_basemap.basemap_style_id it may be an older revision";

const isTold: Rule = {
  id: "session-basemap-style-is-returned",
  level: "must",
  spec: [16, 34],
  title: "a style that the organization stored is returned with each of its sessions, whatever the product",
  phase: "lattice",
  needs: { roles: [OF] },
  cost: { calls: 3, map_loads: 1, shared: "basemap" },
  run: async (context) => {
    const style = context.keyRole(OF)?.basemap_style_id;
    const checks = new Checks(style === undefined ? `a ${NAME}` : `${NAME} "${style}"`);
    const minted = await sessions(context, checks);
    // An older revision reports none at all (item 16); one that reports it to some sessions is none.
    if (style === undefined && !checks.failed && !minted.some(({ fields }) => NAME in fields)) {
      return checks.result(UNSTATED);
    }
    for (const answer of minted) {
      const names = shapeOf(answer.fields);
      checks.require(NAME in answer.fields, answer, `${NAME} "${style ?? "of the store"}"`, `its fields were ${names}`);
    }
    return checks.result(UNSTATED);
  },
};

/** So many organizations rarely store the same canvas by chance. */
const ORGANIZATIONS_MIN = 3;

/** The styles reported to sessions of each organization of which the target file states no stored one. */
const stylesByOrganization = (context: Context): Map<string, { style: unknown; answer: Answer }[]> => {
  const declared = context.keyRole(OF)?.org;
  const found = new Map<string, { style: unknown; answer: Answer }[]>();
  for (const answer of context.answers) {
    const { route, credential } = answer.testCall;
    if (route !== "sdk.sessions" || !isAdmitted(answer) || !("of" in credential)) continue;
    const key = context.keyRole(credential.of.replace(/^role:/, "") as KeyRole);
    if (key?.org === undefined || key.org === declared || key.basemap_style_id !== undefined) continue;
    found.set(key.org, [...(found.get(key.org) ?? []), { style: answer.fields[NAME], answer }]);
  }
  return found;
};

/** Not a must: each of them may have stored just that style, and nobody sees it from outside. */
const noDefault: Rule = {
  id: "session-basemap-style-is-no-default",
  level: "should",
  spec: [34, 35],
  title: "a style is returned where one is stored, and not the same one to every organization",
  phase: "every-answer",
  needs: {},
  cost: { calls: 0 },
  run: async (context): Promise<RuleResult> => {
    const checks = new Checks("no basemap_style_id for an organization that stored none");
    const organizations = [...stylesByOrganization(context).values()];
    if (organizations.length < ORGANIZATIONS_MIN) {
      return { ...checks.result("sessions of three organizations without a stated style"), idle: true };
    }
    const styles = new Set(organizations.flat().map(({ style }) => style));
    const [style] = styles;
    const last = organizations.flat().at(-1)?.answer;
    const isDefault = styles.size === 1 && typeof style === "string";
    if (last !== undefined) {
      const got = `each of ${organizations.length} organizations got ${shapeOf(style)}`;
      checks.require(!isDefault, last, "no style, unless each of them stored the same", got);
    }
    return checks.result();
  },
};

export const BASEMAP_RULES: readonly Rule[] = [absent, stored, isTold, noDefault];
