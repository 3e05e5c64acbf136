/** Sets members in the text of a JSON file, so that comments, order and spelling of everything else stay as they are. */

type Member = { name: string; from: number; valueFrom: number; to: number };

const TOKEN = /"(?:[^"\\]+|\\.)*"|[{}[\]:,]|[^\s"{}[\]:,]+/g;

/** The members of the object that opens at `open`, with their places; several may have one name. */
const membersAt = (text: string, open: number): Member[] => {
  const members: Member[] = [];
  let depth = 0;
  let isName = true;
  for (const { 0: token, index } of text.slice(open).matchAll(TOKEN)) {
    const [from, to] = [open + index, open + index + token.length];
    if (depth === 1 && token === "}") break;
    const member = members.at(-1);
    if (depth === 1 && token === ",") isName = true;
    else if (depth === 1 && isName) {
      members.push({ name: JSON.parse(token) as string, from, valueFrom: 0, to });
      isName = false;
    } else if (member !== undefined && !(depth === 1 && token === ":")) {
      member.valueFrom ||= from;
      member.to = to;
    }
    if (token === "{" || token === "[") depth += 1;
    else if (token === "}" || token === "]") depth -= 1;
  }
  return members;
};

const inOneLine = (value: unknown): string => JSON.stringify(value, null, 1).replace(/\n\s*/g, " ");

/**
 * The text of a JSON object with the member at `path` set to `value`. A new member stands behind the first of the names in
 * `behind` that the object has, or at its end; objects on the way to it are made.
 */
export const withMember = (
  text: string,
  [name = "", ...below]: readonly string[],
  value: unknown,
  behind: readonly string[] = [],
  open = text.indexOf("{"),
): string => {
  const members = membersAt(text, open);
  const called = (wanted: string): Member | undefined => members.findLast((one) => one.name === wanted);
  const found = called(name);
  if (found !== undefined && below.length > 0 && text[found.valueFrom] === "{")
    return withMember(text, below, value, behind, found.valueFrom);
  const json = inOneLine(below.reduceRight((inner, key) => ({ [key]: inner }), value));
  if (found !== undefined) return text.slice(0, found.valueFrom) + json + text.slice(found.to);
  const before = behind.flatMap((wanted) => called(wanted) ?? [])[0] ?? members.at(-1);
  const at = before?.to ?? open + 1;
  const gap = text.slice(open + 1, members[0]?.from ?? open + 1);
  const member = `${JSON.stringify(name)}: ${json}`;
  return `${text.slice(0, at)}${before === undefined ? "" : ","}${gap}${member}${text.slice(at)}`;
};
