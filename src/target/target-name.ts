/** By what a deployment is known in a journal: its base URL, and for people the name and place of its target file. */
import { resolve } from "node:path";
import type { TargetName } from "../supervision/undo.ts";
import { targetUrl } from "./lock.ts";
import type { Target } from "./target.ts";

export const targetName = ({ name, base_url }: Target, file?: string): TargetName => ({
  base_url: targetUrl(base_url),
  ...(name === undefined ? {} : { name }),
  ...(file === undefined ? {} : { file: resolve(file) }),
});

export const isSameTarget = (named: TargetName, { base_url }: Pick<Target, "base_url">): boolean =>
  named.base_url === targetUrl(base_url);
