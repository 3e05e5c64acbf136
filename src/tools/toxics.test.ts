import { describe, expect, test } from "vitest";
import { differenceTo, type Toxic } from "./toxics.ts";

const latency: Toxic = { name: "t", stream: "downstream", type: "latency", attributes: { latency: 100, jitter: 0 } };

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
