/** Makes folders. `mkdir` of Node with `recursive` never returns below /proc, and cannot be interrupted meanwhile. */
import { mkdirSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";

/** The folder and those above it that are not there; nothing happens where it is. Throws the system's error. */
export const makeFolders = (path: string, mode?: number): void => {
  const missing: string[] = [];
  for (let at = resolve(path); statSync(at, { throwIfNoEntry: false }) === undefined; at = dirname(at)) {
    missing.push(at);
    if (dirname(at) === at) break;
  }
  for (const folder of missing.reverse()) {
    try {
      mkdirSync(folder, mode === undefined ? {} : { mode });
    } catch (error) {
      // Another process may have made it in between.
      const isThere = statSync(folder, { throwIfNoEntry: false })?.isDirectory() === true;
      if ((error as NodeJS.ErrnoException).code !== "EEXIST" || !isThere) throw error;
    }
  }
  if (!statSync(path).isDirectory()) {
    throw Object.assign(new Error(`ENOTDIR: not a folder, '${path}'`), { code: "ENOTDIR" });
  }
};
