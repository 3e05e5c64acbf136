/**
 * The toxics of toxiproxy 2.12 that our faults consist of. The server accepts any attribute name and any number, and then
 * does nothing, crashes or hangs; so types state the names, and what the server then reports is compared with what was sent.
 *
 * Units: milliseconds for `latency`, `jitter` and `timeout`, microseconds for `delay`, bytes for sizes.
 */

/** `upstream`: affects the request on its way to the server. `downstream`: affects the reply to a request done. */
export type ToxicStream = "upstream" | "downstream";

export type ToxicShape =
  | { type: "latency"; attributes: Record<"latency" | "jitter", number> }
  /** 0 drops all data for ever; removing the toxic closes every connection of the proxy. */
  | { type: "timeout"; attributes: Record<"timeout", number> }
  /** With a timeout above 0, removing the toxic takes that long. */
  | { type: "reset_peer"; attributes: Record<"timeout", number> }
  /** `average_size` 0 recurses for ever in the server; `size_variation` has to be smaller. */
  | { type: "slicer"; attributes: Record<"average_size" | "size_variation" | "delay", number> }
  /** Bytes are counted per connection, from when the toxic was added. */
  | { type: "limit_data"; attributes: Record<"bytes", number> };

/** `toxicity` is always 1, because toxiproxy draws it per connection with a generator that cannot be seeded. */
export type Toxic = ToxicShape & { name: string; stream: ToxicStream };

export type ToxicEcho = {
  name: string;
  type: string;
  stream: string;
  toxicity: number;
  attributes: Record<string, unknown>;
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
