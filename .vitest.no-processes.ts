/** For the quick tests: a test that starts a program says so, or fails. Asking git about this clone is none. */
import childProcess from "node:child_process";
import { syncBuiltinESMExports } from "node:module";

const STARTS = ["spawn", "spawnSync", "exec", "execSync", "execFile", "execFileSync", "fork"] as const;

for (const name of STARTS) {
  const real = childProcess[name] as (...args: unknown[]) => unknown;
  Object.assign(childProcess, {
    [name]: (...args: unknown[]) => {
      if (args[0] === "git") return real(...args);
      throw new Error(
        `this test starts ${String(args[0])}, and quick tests start nothing: add its file to STARTS_PROCESSES in .vitest.config.ts`,
      );
    },
  });
}
syncBuiltinESMExports();
