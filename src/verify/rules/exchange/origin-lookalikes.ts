/**
 * Origins that merely look like the listed one (items 43, 52, 72): what no pattern could mean is a must, the rest a matter of
 * how Origins are matched, which is a gap.
 */
import { outcomeOf } from "../../../contract/refusals.ts";
import { type Cell, tableRule } from "../../cells.ts";
import type { Rule } from "../../rule.ts";
import { exchangeCall, role } from "../../sending/test-call.ts";

const MISMATCH = outcomeOf("session_origin_mismatch");

/** Origins that only look like the listed one. No pattern could mean the strict ones; the rest is a matter of matching. */
const lookalikes = (listed: string): { strict: string[]; lenient: string[] } => {
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

const lookalikeRule = (id: string, level: "must" | "info", which: "strict" | "lenient", title: string): Rule =>
  tableRule({
    id,
    level,
    spec: which === "strict" ? [43, 72] : [52],
    title,
    phase: "lattice",
    needs: { roles: ["publishable"] },
    cost: { calls: which === "strict" ? 8 : 6 },
    nothing: "the origin of publishable is none that could be imitated",
    cells: (context) => {
      const listed = context.keyRole("publishable")?.origin;
      if (listed === undefined || !URL.canParse(listed)) return [];
      return lookalikes(listed)[which].flatMap((originValue): Cell[] => [
        { testCall: exchangeCall("publishable", "foreign", "chat", { originValue }), accepts: [MISMATCH] },
        {
          testCall: {
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

export const LOOKALIKE_RULES: readonly Rule[] = [
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
];
