/**
 * `verify --keep-answers`: each answer as it came, in a file of the run folder that its owner alone may read. Masked like
 * everything there; but a server may write a secret in a way that nobody looks for, so reports show shapes and this is opt-in.
 */

import type { RunFolder } from "../deployments/run-context.ts";
import type { Answer } from "../verify/sending/answer.ts";

export const ANSWERS_FILE = "answers.ndjson";
const ANSWER_MOST_CHARS = 64 << 10;
const ALL_MOST_CHARS = 64 << 20;

export const keepAnswers = (
  folder: Pick<RunFolder, "openLines">,
): { see(answer: Answer): void; close(): Promise<void> } => {
  const file = folder.openLines(ANSWERS_FILE);
  let left = ALL_MOST_CHARS;
  let writing = Promise.resolve();
  return {
    see: ({ id, status, headers, text, chunks, received }) => {
      const body = (text === "" ? chunks.map((chunk) => chunk.text).join("") : text).slice(0, ANSWER_MOST_CHARS);
      const line = JSON.stringify({ id, status, ended: received.ended, headers, body });
      left -= line.length;
      if (left < 0) return;
      writing = writing.then(() => file.write(line));
      // Said by `close`.
      writing.catch(() => undefined);
    },
    close: async () => {
      await writing;
      await file.close();
    },
  };
};
