import { describe, expect, test } from "vitest";
import { differenceTo, type Toxic, whatIsWrongWith } from "./toxics.ts";

const latency: Toxic = { name: "t", stream: "downstream", type: "latency", attributes: { latency: 100, jitter: 0 } };

describe("a toxic before it is sent", () => {
  test("a good one may be sent", () => expect(whatIsWrongWith(latency)).toBeNull());

  test("a misspelt attribute, which toxiproxy would ignore, is refused by name", () => {
    const misspelt = { ...latency, attributes: { latancy: 100, jitter: 0 } } as unknown as Toxic;
    expect(whatIsWrongWith(misspelt)).toContain('"latancy"');
  });

  test("a slicer of size 0, which would kill the server, is refused", () => {
    const slicer: Toxic = {
      name: "t",
      stream: "downstream",
      type: "slicer",
      attributes: { average_size: 0, size_variation: 0, delay: 0 },
    };
    expect(whatIsWrongWith(slicer)).toContain("above 0");
  });

  test.each([-100, 1.5, Number.NaN, undefined, "100"])("a latency of %s is refused", (value) => {
    expect(whatIsWrongWith({ ...latency, attributes: { latency: value, jitter: 0 } } as unknown as Toxic)).toContain(
      "latency",
    );
  });

  test("a type that toxiproxy has not is refused with those it has", () => {
    expect(whatIsWrongWith({ ...latency, type: "down" } as unknown as Toxic)).toContain("slow_close");
  });

  test("a name that would change the path is refused", () => {
    expect(whatIsWrongWith({ ...latency, name: "a/../b" })).toContain("a/../b");
  });
});

describe("a toxic read back", () => {
  const echo = {
    name: "t",
    type: "latency",
    stream: "downstream",
    toxicity: 1,
    attributes: { latency: 100, jitter: 0 },
  };

  test("the same is no difference", () => expect(differenceTo(latency, echo)).toBeNull());

  test("a value that did not arrive is named with both values", () => {
    expect(differenceTo(latency, { ...echo, attributes: { latency: 0, jitter: 0 } })).toBe(
      "attribute latency: asked for 100, the server has 0",
    );
  });

  test("another stream or toxicity is a difference", () => {
    expect(differenceTo(latency, { ...echo, stream: "upstream" })).toContain("stream");
    expect(differenceTo(latency, { ...echo, toxicity: 0.5 })).toContain("toxicity");
  });
});
