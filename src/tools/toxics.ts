/**
 * The toxics of toxiproxy 2.12. The server accepts any attribute name and any number, and then does nothing, crashes or
 * hangs; so toxics are checked before they are sent, and compared with what the server then reports.
 *
 * Units: milliseconds for `latency`, `jitter`, `timeout`, `delay` of `slow_close`; microseconds for `delay` of
 * `slicer`; 1000 bytes per second for `rate`; bytes for sizes.
 */

/** `upstream`: affects the request on its way to the server. `downstream`: affects the reply to a request done. */
export type ToxicStream = "upstream" | "downstream";

const ATTRIBUTES = {
  latency: ["latency", "jitter"],
  bandwidth: ["rate"],
  slow_close: ["delay"],
  /** 0 drops all data for ever; removing the toxic closes every connection of the proxy. */
  timeout: ["timeout"],
  /** With a timeout above 0, removing the toxic takes that long. */
  reset_peer: ["timeout"],
  /** `average_size` 0 recurses for ever in the server. */
  slicer: ["average_size", "size_variation", "delay"],
  /** Bytes are counted per connection, from when the toxic was added. */
  limit_data: ["bytes"],
} as const;

type ToxicType = keyof typeof ATTRIBUTES;
export type ToxicShape = {
  [T in ToxicType]: { type: T; attributes: Record<(typeof ATTRIBUTES)[T][number], number> };
}[ToxicType];

/** `toxicity` is always 1, because toxiproxy draws it per connection with a generator that cannot be seeded. */
export type Toxic = ToxicShape & { name: string; stream: ToxicStream };

export type ToxicEcho = {
  name: string;
  type: string;
  stream: string;
  toxicity: number;
  attributes: Record<string, unknown>;
};

/** What is wrong with a toxic before it is sent, as a sentence; `null` if it may be sent. */
export const whatIsWrongWith = (toxic: Toxic): string | null => {
  const { type, name, stream } = toxic;
  const known: readonly string[] | undefined = ATTRIBUTES[type];
  if (known === undefined) return `toxiproxy has no toxic "${type}"; it has ${Object.keys(ATTRIBUTES).join(", ")}`;
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return `a toxic's name is letters, digits, "_", "." and "-", not "${name}"`;
  if (stream !== "upstream" && stream !== "downstream")
    return `a toxic's stream is upstream or downstream, not "${String(stream)}"`;
  const attributes: Record<string, unknown> = toxic.attributes;
  const foreign = Object.keys(attributes).find((one) => !known.includes(one));
  if (foreign !== undefined)
    return `the toxic "${type}" has no attribute "${foreign}" (toxiproxy would ignore it); it has ${known.join(", ")}`;
  const wrong = known.find((one) => !Number.isSafeInteger(attributes[one]) || (attributes[one] as number) < 0);
  if (wrong !== undefined)
    return `attribute "${wrong}" of the toxic "${type}" is a whole number from 0, not ${JSON.stringify(attributes[wrong]) ?? "absent"}`;
  if (type !== "slicer") return null;
  const { average_size: average, size_variation: variation } = toxic.attributes;
  if (average < 1)
    return "average_size of a slicer must be above 0: with 0 the toxiproxy server recurses until it dies";
  const isWide = variation >= average;
  return isWide ? `size_variation (${variation}) of a slicer must be below average_size (${average})` : null;
};

/** How the server's toxic differs from the one asked for, as a sentence; `null` if they agree. */
export const differenceTo = (asked: Toxic, echo: ToxicEcho): string | null => {
  for (const part of ["name", "type", "stream"] as const)
    if (echo[part] !== asked[part]) return `${part}: asked for ${asked[part]}, the server has ${String(echo[part])}`;
  if (echo.toxicity !== 1) return `toxicity: asked for 1, the server has ${String(echo.toxicity)}`;
  const have = echo.attributes ?? {};
  const other = Object.entries(asked.attributes).find(([name, value]) => have[name] !== value);
  if (other === undefined) return null;
  const [name, value] = other;
  return `attribute ${name}: asked for ${value}, the server has ${JSON.stringify(have[name]) ?? "none of that name"}`;
};
