import { expect, test } from "vitest";
import { withMember } from "./edit-members.ts";

const COMMENTED =
  '{\r\n\t"//": "one, {",\r\n\t"//": "two \\" }",\r\n\t"b": [{ "a": 1 }],\r\n\t"a": { "x" :1e3 }\r\n}\r\n';

test.each<[what: string, text: string, path: string[], value: unknown, expected: string]>([
  ["a value is replaced in place", COMMENTED, ["b"], true, COMMENTED.replace('[{ "a": 1 }]', "true")],
  ["a value deep down", COMMENTED, ["a", "x"], 2, COMMENTED.replace("1e3", "2")],
  ["a member is added at the end", COMMENTED, ["c"], {}, COMMENTED.replace("1e3 }", '1e3 },\r\n\t"c": {}')],
  ["a member deep down is added", COMMENTED, ["a", "y"], 2, COMMENTED.replace("1e3", '1e3, "y": 2')],
  ["what is no object becomes one", '{"a":null}', ["a", "y"], 2, '{"a":{ "y": 2 }}'],
  ["objects on the way are made", '{ "a": 1 }', ["b", "c"], "d", '{ "a": 1, "b": { "c": "d" } }'],
  ["an empty object", "{}", ["a"], 1, '{"a": 1}'],
  ["the last of several of one name is the one that counts", '{"a":1,"a":2}', ["a"], 3, '{"a":1,"a":3}'],
])("%s", (_, text, path, value, expected) => {
  const edited = withMember(text, path, value);
  expect(edited).toBe(expected);
  expect(() => JSON.parse(edited)).not.toThrow();
});

test("a new member stands behind the first one that is there", () => {
  expect(withMember('{"a":1,"b":2,"c":3}', ["d"], 4, ["x", "b", "a"])).toBe('{"a":1,"b":2,"d": 4,"c":3}');
});
