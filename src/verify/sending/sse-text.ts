/** Parses an event stream strictly to judge its frames (item 166); a client's parser would forgive errors. */
import { parseJson } from "../../contract/envelopes.ts";
import type { Chunk } from "./body-taps.ts";

/** `event`: `null` without such a line. `inOrder`: it came before `data`. `atUs`: when the last piece arrived. */
type SseFrame = { event: string | null; data: string | null; json: unknown; inOrder: boolean; atUs: number };

type Line = { text: string; atUs: number };

/** Lines end with LF, CRLF or CR. A CR at the end of a piece may be half of a CRLF. */
const linesOf = (chunks: readonly Chunk[]): Line[] => {
  const lines: Line[] = [];
  let rest = "";
  for (const { text, atUs } of chunks) {
    rest += text;
    for (;;) {
      const end = /\r\n|\n|\r(?!$)/.exec(rest);
      if (end === null) break;
      lines.push({ text: rest.slice(0, end.index), atUs });
      rest = rest.slice(end.index + end[0].length);
    }
  }
  if (rest.replace(/\r$/, "") !== "") lines.push({ text: rest.replace(/\r$/, ""), atUs: chunks.at(-1)?.atUs ?? 0 });
  return lines;
};

const FIELD = /^(event|data|id|retry)(?::[ ]?(.*))?$/;

export type SseText = ReturnType<typeof readSseText>;

/** `strange`: lines that are no field, comment or empty line. */
export const readSseText = (chunks: readonly Chunk[]) => {
  const frames: SseFrame[] = [];
  const strange: string[] = [];
  let event: string | null = null;
  let data: string[] = [];
  let dataFirst = false;
  let atUs = 0;
  const close = (): void => {
    if (event !== null || data.length > 0) {
      const text = data.length === 0 ? null : data.join("\n");
      frames.push({ event, data: text, json: text === null ? undefined : parseJson(text), inOrder: !dataFirst, atUs });
    }
    [event, data, dataFirst] = [null, [], false];
  };
  for (const [i, line] of linesOf(chunks).entries()) {
    atUs = line.atUs;
    const text = i === 0 ? line.text.replace(/^\uFEFF/, "") : line.text;
    if (text === "") close();
    else if (!text.startsWith(":")) {
      const field = FIELD.exec(text);
      if (field === null) strange.push(text);
      else if (field[1] === "event") {
        if (data.length > 0) dataFirst = true;
        event = field[2] ?? "";
      } else if (field[1] === "data") data.push(field[2] ?? "");
    }
  }
  close();
  return { frames, strange };
};
