/**
 * The three chat streams have separate event names (items 95, 104, 105; A10). Only `error` and `quota` are specified, so only the
 * reference platform is judged.
 */
import { routeOf, type Stream } from "../contract/routes.ts";
import { VOCABULARIES } from "../contract/streams.ts";
import { isReference } from "./evidence/deployment.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped } from "./invariant.ts";

const namesOf = (stream: Stream): string[] => {
  const { content, done, quota } = VOCABULARIES[stream];
  return [...content, done, ...(quota ? ["quota"] : [])];
};

/** Event names of the other streams. Unknown names are ignored (item 172). */
const foreignTo = (stream: Stream): ReadonlySet<string> => {
  const all = (Object.keys(VOCABULARIES) as Stream[]).flatMap(namesOf);
  const own = new Set(namesOf(stream));
  return new Set(all.filter((name) => !own.has(name)));
};

export const streamVocabulariesDiffer: Invariant = {
  id: "stream-vocabularies-differ",
  level: "must",
  folded: true,
  spec: [92, 93, 94, 95, 170, 176],
  statement: "no chat stream uses an event that belongs to another one's vocabulary",
  judge(facts) {
    if (!isReference(facts)) {
      return skipped("the event names of this deployment, which the specification leaves open");
    }
    const foreign = { control: foreignTo("control"), summary: foreignTo("summary"), button: foreignTo("button") };
    const evidence = new Evidence();
    const spoken = new Set<Stream>();
    return {
      see(line) {
        if (line.type !== "call" || line.route === "-" || !isAdmitted(line)) return;
        const { stream } = routeOf(line.route);
        if (stream === undefined || line.event_names === undefined) return;
        const borrowed = line.event_names.filter((name) => foreign[stream].has(name));
        if (borrowed.length > 0) evidence.breach(line.id, `the ${stream} stream spoke ${borrowed.join(", ")}`);
        if (line.event_names.some((name) => VOCABULARIES[stream].content.includes(name))) spoken.add(stream);
      },
      end() {
        if (evidence.count > 0) return failed("a stream used another stream's event names", evidence);
        if (spoken.size < 2) return inconclusive(`${spoken.size} of the 3 kinds of stream were seen`);
        return passed(`${[...spoken].sort().join(", ")} each used its own event names`);
      },
    };
  },
};
