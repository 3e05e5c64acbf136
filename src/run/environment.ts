/** The machine and tools of a run (`environment` in `run.json`). */
import { execFile } from "node:child_process";
import { cpus, release, type } from "node:os";
import { promisify } from "node:util";
import type { RunDocument } from "../history/run-document.ts";

const run = promisify(execFile);

/** A disk that does not answer must not keep a finished run from its report. */
const GIT = { timeout: 5_000 };

/** The commit under test, with `+` when files differ from it; `null` outside a checkout or without git. */
export const commitOf = async (folder: string): Promise<string | null> => {
  try {
    const { stdout } = await run("git", ["-C", folder, "rev-parse", "--short=12", "HEAD"], GIT);
    const { stdout: changed } = await run("git", ["-C", folder, "status", "--porcelain", "--untracked-files=no"], GIT);
    return stdout.trim() + (changed.trim() === "" ? "" : "+");
  } catch {
    return null;
  }
};

export const describeEnvironment = (
  tools: { k6: string | null; toxiproxy: string | null },
  hostNotes: string[],
): RunDocument["environment"] => ({
  node: process.versions.node,
  ...tools,
  os: `${type()} ${release()} ${process.arch}`,
  cores: cpus().length,
  cpu: cpus()[0]?.model ?? "unknown",
  host_notes: hostNotes,
});
