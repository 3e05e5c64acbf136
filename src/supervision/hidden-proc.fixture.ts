/** A machine that hides its processes: while `isHidden`, nothing under /proc can be read by whatever imports `node:fs`. */
export const proc = { isHidden: false };

/** Makes the module that stands in for `node:fs` (`vi.mock`). */
export const hidingProc = (real: typeof import("node:fs")) => {
  const readFileSync = (...asked: Parameters<typeof real.readFileSync>) => {
    if (proc.isHidden && String(asked[0]).startsWith("/proc/")) throw Object.assign(new Error(), { code: "ENOENT" });
    return real.readFileSync(...asked);
  };
  return { ...real, readFileSync };
};
