/** Reads what a control plane, a proxy's API or a Prometheus answers, and no more than a bound: it may be anybody's. */

/** As much as a list of thousands of proxies or series needs. */
export const ANSWER_MOST_BYTES = 4 << 20;

/** Throws beyond the bound; leaving the loop gives the connection up. */
export const textWithin = async (
  body: AsyncIterable<Uint8Array>,
  mostBytes: number = ANSWER_MOST_BYTES,
): Promise<string> => {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > mostBytes) throw new Error(`the answer is longer than ${mostBytes >> 20} MiB`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
};
