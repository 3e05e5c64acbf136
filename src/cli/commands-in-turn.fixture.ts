/**
 * For tests of what commands say: plays them one after the other in this process, which loads the program once. A line of stdin
 * is a command, `{ args, env, cwd }`; a line of stdout is what came of it. The process ends with its stdin, unless a command holds it.
 */
import { createInterface } from "node:readline";
import { main } from "./main.ts";

const answer = process.stdout.write.bind(process.stdout);
// Each command adds its listeners, as if it were the only one of the process, so there may be any number of them.
for (const emitter of [process, process.stdout, process.stderr]) emitter.setMaxListeners(0);

for await (const line of createInterface({ input: process.stdin })) {
  const { args, env, cwd } = JSON.parse(line) as { args: string[]; env: NodeJS.ProcessEnv; cwd: string };
  Object.assign(process.env, env);
  process.chdir(cwd);
  const said = { out: "", err: "" };
  const keep = (to: keyof typeof said) => ({
    write: (text: string) => {
      said[to] += text;
      return true;
    },
  });
  Object.assign(process.stdout, keep("out"));
  Object.assign(process.stderr, keep("err"));
  process.exitCode = undefined;
  await main(args);
  answer(`${JSON.stringify({ code: process.exitCode ?? 0, ...said })}\n`);
  process.exitCode = undefined;
}
