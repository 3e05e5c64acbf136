/** Reads the lines of a file while another process still writes them, in order and each once. */
import { open } from "node:fs/promises";
import { StringDecoder } from "node:string_decoder";

const LOOK_EVERY_MS = 50;
const CHUNK_BYTES = 1 << 18;

type Following = {
  /** To be called when nothing is written any more: reads what is left, and ends with the last line. */
  finish(): Promise<void>;
};

/** The file has to be there. What `onLine` throws ends the reading, and `finish` throws it. */
export const followLines = (path: string, onLine: (text: string) => void): Following => {
  let isOver = false;
  let wake = (): void => undefined;
  const read = async (): Promise<void> => {
    const file = await open(path, "r");
    try {
      const buffer = Buffer.alloc(CHUNK_BYTES);
      const decoder = new StringDecoder("utf8");
      let rest = "";
      for (;;) {
        // Asked before the read, so that what was written until the end is read after it.
        const wasOver = isOver;
        const { bytesRead } = await file.read(buffer, 0, CHUNK_BYTES, null);
        if (bytesRead > 0) {
          const lines = (rest + decoder.write(buffer.subarray(0, bytesRead))).split("\n");
          rest = lines.pop() as string;
          for (const line of lines) onLine(line);
        } else if (wasOver) {
          if (rest !== "") onLine(rest);
          return;
        } else {
          await new Promise<void>((resolve) => {
            const timer = setTimeout(resolve, LOOK_EVERY_MS);
            wake = () => {
              clearTimeout(timer);
              resolve();
            };
          });
        }
      }
    } finally {
      await file.close();
    }
  };
  const reading = read();
  reading.catch(() => undefined);
  return {
    finish: () => {
      isOver = true;
      wake();
      return reading;
    },
  };
};
