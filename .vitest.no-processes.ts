/** For the quick tests: a test that starts a program says so, or fails. Asking git about this clone is none. */
import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { promisify } from "node:util";

const STARTS = ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"] as const;

type Start = (...args: unknown[]) => unknown;

const gitAlone =
  (real: Start): Start =>
  (...args) => {
    if (args[0] === "git") return real(...args);
    throw new Error(
      `this test starts ${String(args[0])}, and quick tests start nothing: add its file to STARTS_PROCESSES in .vitest.config.ts`,
    );
  };

for (const name of STARTS) {
  const real = childProcess[name] as Start & { [promisify.custom]?: Start };
  const promised = real[promisify.custom];
  const own = promised === undefined ? {} : { [promisify.custom]: gitAlone(promised) };
  Object.assign(childProcess, { [name]: Object.assign(gitAlone(real), own) });
}
syncBuiltinESMExports();
