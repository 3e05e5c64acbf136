/** From where a browser may call (items 71-73, 151, 159, 194-195, 208; A3, A12). */
import { outcomeOf } from "../../contract/subcodes.ts";
import { type Cell, tableRule } from "../cells.ts";
import { ANY_SUCCESS, Checks } from "../checks.ts";
import { type Context, scopeOf } from "../context.ts";
import { pairwise } from "../pairwise.ts";
import { exchangeProbe, FORMS, type Probe, role } from "../probe.ts";
import { RUNTIME_ROUTES, type Rule } from "../rule.ts";

const NO_ORIGIN = outcomeOf("origin_required");
const MISMATCH = outcomeOf("session_origin_mismatch");
const RESTRICTED = outcomeOf("tile_access_restricted");
const PRODUCTS_ASKED = ["chat", "editor"] as const;

const originRequired = tableRule({
  id: "exchange-origin-required",
  level: "must",
  spec: [71, 194],
  title: "the exchange answers a call without an Origin with 403 origin_required",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cells: async (context) => {
    const asked = pairwise({ product: PRODUCTS_ASKED, form: await context.exchangeForms() }).map(({ product, form }) =>
      exchangeProbe("publishable", "none", product, { form }),
    );
    // Anybody can write a Referer; only a browser's Origin says where a call comes from.
    const headers = { referer: `${context.target.credentials?.publishable?.origin}/` };
    const empty = exchangeProbe("publishable", "foreign", "chat", { originValue: "", what: "an empty Origin" });
    return [
      ...[...asked, exchangeProbe("publishable", "none", "chat", { headers })].map(
        (probe): Cell => ({ probe, accepts: [NO_ORIGIN] }),
      ),
      { probe: empty, accepts: [NO_ORIGIN, MISMATCH] },
    ];
  },
});

/** The API's own address is in the allowlist as little as any other that is not listed. */
const ownOrigin = (context: Context): Probe[] => {
  const { origin } = new URL(context.target.base_url);
  if (origin === listedOf(context)) return [];
  return [exchangeProbe("publishable", "foreign", "chat", { originValue: origin, what: "the API's own Origin" })];
};

const originMismatch = tableRule({
  id: "exchange-origin-mismatch",
  level: "must",
  spec: [43, 72, 73, 195],
  title: "the exchange answers an Origin outside the key's allowlist with 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cells: async (context) =>
    [
      ...pairwise({ product: PRODUCTS_ASKED, form: await context.exchangeForms() }).map(({ product, form }) =>
        exchangeProbe("publishable", "foreign", product, { form }),
      ),
      ...ownOrigin(context),
    ].map((probe): Cell => ({ probe, accepts: [MISMATCH] })),
});

/** Origins that only look like the listed one. No pattern could mean the strict ones; the rest is a matter of matching. */
export const lookalikes = (listed: string): { strict: string[]; lenient: string[] } => {
  const { protocol, hostname, port } = new URL(listed);
  const at = port === "" ? "" : `:${port}`;
  return {
    strict: [
      `${protocol}//${hostname}.attacker.example${at}`,
      `${protocol}//not-${hostname}${at}`,
      // A part of it, and its dot taken for any character.
      `${protocol}//${hostname.slice(0, -1)}`,
      ...(/^[\d.]+$/.test(hostname) || !hostname.includes(".")
        ? []
        : [`${protocol}//${hostname.replace(".", "x")}${at}`]),
    ],
    lenient: [
      `${protocol === "https:" ? "http:" : "https:"}//${hostname}${at}`,
      `${protocol}//${hostname}:${port === "8443" ? "9443" : "8443"}`,
      `${protocol}//sub.${hostname}${at}`,
    ],
  };
};

const listedOf = (context: Context): string | undefined => context.keyRole("publishable")?.origin;

const lookalikeRule = (id: string, level: "must" | "info", which: "strict" | "lenient", title: string): Rule =>
  tableRule({
    id,
    level,
    spec: which === "strict" ? [43, 72] : [52],
    title,
    phase: "lattice",
    needs: { roles: ["publishable"] },
    nothing: "the origin of publishable is none that could be imitated",
    cells: (context) => {
      const listed = listedOf(context);
      if (listed === undefined || !URL.canParse(listed)) return [];
      return lookalikes(listed)[which].flatMap((originValue): Cell[] => [
        { probe: exchangeProbe("publishable", "foreign", "chat", { originValue }), accepts: [MISMATCH] },
        {
          probe: {
            route: "poi.enrich",
            credential: { as: "session", of: role("publishable"), product: "chat" },
            origin: "foreign",
            originValue,
          },
          accepts: [MISMATCH],
        },
      ]);
    },
  });

/**
 * Whether `null` counts as an Origin or as none is a gap (item 53), so either subcode fits. That a call is refused which has no
 * allowlisted Origin is stated (items 71, 72): in both readings it is, so letting it in breaks a must.
 */
const nullOrigin = tableRule({
  id: "exchange-origin-null",
  level: "must",
  spec: [71, 72],
  title: "the exchange takes Origin: null neither for an allowlisted one nor for enough",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cells: (context) =>
    // A key may list the text `null` itself, for pages without an origin.
    listedOf(context) === "null"
      ? []
      : [{ probe: exchangeProbe("publishable", "null", "chat"), accepts: [MISMATCH, NO_ORIGIN] }],
});

const sessionOrigin = tableRule({
  id: "session-origin-mismatch",
  level: "must",
  spec: [151, 195],
  title: "a session used from an Origin outside the key's allowlist is answered 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  cells: () =>
    pairwise({ route: RUNTIME_ROUTES, form: FORMS }).map(
      ({ route, form }): Cell => ({
        probe: {
          route,
          credential: { as: "session", of: role("publishable"), product: scopeOf(route) === "ai" ? "chat" : "editor" },
          origin: "foreign",
          form,
        },
        accepts: [MISMATCH],
      }),
    ),
});

const tileOrigin = tableRule({
  id: "tile-foreign-origin",
  level: "must",
  spec: [208, 209],
  title: "a tile asked for from a foreign Origin is refused: 429 tile_access_restricted or 403 session_origin_mismatch",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cells: () =>
    FORMS.map(
      (form): Cell => ({
        probe: {
          route: "maps.tiles",
          credential: { as: "session", of: role("publishable"), product: "tile" },
          origin: "foreign",
          form,
        },
        accepts: [RESTRICTED],
        tolerates: [MISMATCH],
      }),
    ),
});

const tileAdmitted = tableRule({
  id: "tile-listed-origin",
  level: "should",
  spec: [208],
  title: "a tile asked for with a tile session from its allowlisted Origin is served",
  phase: "lattice",
  needs: { roles: ["publishable"], tileUrl: true, spends: { map_loads: 1 } },
  cells: () => [
    {
      probe: {
        route: "maps.tiles",
        credential: { as: "session", of: role("publishable"), product: "tile" },
        origin: "listed",
      },
      accepts: [ANY_SUCCESS],
      tolerates: ["404 Not Found", "edge 404"],
    },
  ],
});

const corsForListed: Rule = {
  id: "listed-origin-is-not-blocked-by-cors",
  level: "should",
  spec: [159],
  title: "a browser on an allowlisted Origin may read the answers",
  phase: "lattice",
  needs: { roles: ["publishable"] },
  run: async (context) => {
    const listed = listedOf(context);
    const checks = new Checks("Access-Control-Allow-Origin names the allowlisted Origin");
    const editor = { as: "session", of: role("publishable"), product: "editor" } as const;
    const session: Probe = { route: "design.styles", credential: editor, origin: "listed" };
    const stream: Probe = { ...session, route: "chat.control", credential: { ...editor, product: "chat" } };
    const minted = await context.mint("publishable", "editor");
    for (const answer of [minted, ...(await Promise.all([session, stream].map(context.send)))]) {
      if (answer.transient) checks.unclear("overload or no answer");
      else {
        const allowed = answer.headers["access-control-allow-origin"];
        checks.require(
          allowed === "*" || allowed === listed,
          answer,
          `${listed} or *`,
          `it was ${allowed ?? "absent"}`,
        );
      }
    }
    return checks.result();
  },
};

export const ORIGIN_RULES: readonly Rule[] = [
  originRequired,
  originMismatch,
  lookalikeRule(
    "origin-lookalikes",
    "must",
    "strict",
    "an Origin that merely contains an allowlisted host name is refused",
  ),
  lookalikeRule(
    "origin-is-matched-exactly",
    "info",
    "lenient",
    "whether an Origin of another scheme, port or subdomain is refused",
  ),
  nullOrigin,
  sessionOrigin,
  tileOrigin,
  tileAdmitted,
  corsForListed,
];
