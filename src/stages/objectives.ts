/** Judges a target file's `slo` in stages where no call should be refused; its names say which calls are meant. */
import { nearest } from "../contract/nearest.ts";
import { ROUTE_NAMES } from "../contract/routes.ts";
import { claimOf } from "../history/claim.ts";
import type { Line } from "../history/line.ts";
import { objectivesTally, sloClaim } from "../history/objective-verdicts.ts";
import { ObjectiveError, parseObjectives } from "../history/objectives.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import type { Target } from "../target/target.ts";

const KINDS: Readonly<Record<string, (route: string) => boolean>> = {
  all: () => true,
  catalog: (route) => /^design\.(styles|samples|themes)$/.test(route),
  chat: (route) => route.startsWith("chat."),
  design: (route) => route.startsWith("design."),
  exchange: (route) => route === "sdk.sessions",
  maps: (route) => route.startsWith("maps."),
  poi: (route) => route.startsWith("poi."),
};

const isMeant = (name: string): ((route: string) => boolean) => {
  const kind = KINDS[name];
  if (kind !== undefined) return kind;
  if (ROUTE_NAMES.some((route) => route === name)) return (route) => route === name;
  const names = [...Object.keys(KINDS), ...ROUTE_NAMES];
  const meant = nearest(name, names);
  const others = meant === null ? "" : `; did you mean ${meant}?`;
  throw new ObjectiveError(`slo.${name}: expected the name of one of ${names.join(", ")}${others}`);
};

/** Throws `ObjectiveError` for a name or an objective that cannot be read. */
export const checkObjectives = ({ slo = {} }: Pick<Target, "slo">): void => {
  for (const [name, text] of Object.entries(slo)) {
    isMeant(name);
    parseObjectives(text);
  }
};

export const openObjectives = ({ slo = {} }: Pick<Target, "slo">, stage: string) => {
  const kinds = Object.entries(slo).map(([name, text]) => ({
    name,
    meant: isMeant(name),
    tally: objectivesTally(parseObjectives(text)),
    text,
    /** Calls of this kind that were folded together with other kinds, so that their times are not known. */
    mixed: 0,
  }));
  return {
    see: (line: Line): void => {
      for (const kind of kinds) {
        if (line.type === "call" && kind.meant(line.route)) kind.tally.see(line);
        if (line.type !== "fold") continue;
        const meant = line.kinds.filter(({ call }) => kind.meant(call.route)).reduce((sum, { n }) => sum + n, 0);
        if (meant === line.offered) kind.tally.fold(line);
        else kind.mixed += meant;
      }
    },
    /** Claims `slo/<name>/<stage>` for the kinds that were called. `lacking`: why none of them can be judged. */
    claims: (replay: string, host?: StageHost, lacking?: string): Claim[] =>
      kinds
        .filter(({ tally, mixed }) => tally.calls() + mixed > 0)
        .map(({ name, text, tally, mixed }) => {
          const folded = `every call whole; ${mixed} calls of this kind were folded together with others`;
          const missing = lacking ?? (mixed === 0 ? null : folded);
          if (missing === null) return sloClaim({ name, stage, replay }, tally.verdicts(host));
          return claimOf({
            ...{ id: `slo/${name}/${stage}`, stage, level: "should", verdict: "skipped", replay },
            ...{ reason: `skipped: ${missing}`, expected: text, got: "not judged" },
          });
        }),
  };
};
