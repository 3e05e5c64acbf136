/**
 * Sends SIGTERM to this process when its launcher is gone, because nobody waits for it any more. A launcher is:
 *
 * - the older Node that started this one (its channel closes);
 * - npm and its shell: npm passes SIGTERM to that shell only, and a kill -9 reaches npm only;
 * - in a CI job, every ancestor: a cancelled job signals only the shell of its step, and a clean-up would later kill a run that
 *   still has faults to heal. Elsewhere a shell may leave a run behind on purpose (`nohup`), so there
 *   `FLOODGATE_END_WITH_PARENT=1` asks for it; `=0` turns it off in a CI job.
 *
 * Ancestors are looked up on Linux only; elsewhere only the channel is watched.
 */
import { readFileSync } from "node:fs";
import { isAlive, type ProcessId, parentOf, startTimeOf } from "../supervision/processes.ts";

const EVERY_MS = 500;
/** How far up npm is looked for; npm, a shell and the launcher make three. */
const NPM_GENERATIONS = 5;
const GENERATIONS_MAX = 64;

/** Set by every CI service, or by one of the well-known ones. */
const OF_CI =
  "CI GITHUB_ACTIONS RUNNER_TRACKING_ID GITLAB_CI JENKINS_URL JENKINS_NODE_COOKIE TF_BUILD BUILDKITE TEAMCITY_VERSION";

const isOn = (value: string | undefined): boolean => value !== undefined && !["", "0", "false"].includes(value);

const endsWithShell = ({ FLOODGATE_END_WITH_PARENT: asked, ...env }: NodeJS.ProcessEnv): boolean =>
  asked === undefined ? OF_CI.split(" ").some((name) => isOn(env[name])) : isOn(asked);

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
};

const launchers = (withShell: boolean): ProcessId[] => {
  const above: ProcessId[] = [];
  for (let pid = parentOf(process.pid); pid > 1 && above.length < GENERATIONS_MAX; pid = parentOf(pid)) {
    above.push({ pid, start: startTimeOf(pid) ?? "" });
  }
  if (withShell && endsWithShell(process.env)) return above;
  const npm = process.env.npm_execpath ?? "";
  // npm replaces its command line by a title such as "npm start".
  const isNpm = (command: string): boolean => /^np[mx]\b/.test(command) || command.includes(npm);
  const at = npm === "" ? -1 : above.slice(0, NPM_GENERATIONS).findIndex(({ pid }) => isNpm(commandOf(pid)));
  return above.slice(0, at + 1);
};

/** `withShell` is false for a command that may outlive its shell, such as `serve`. */
export const endWithLauncher = (withShell: boolean): void => {
  const stop = (): void => void process.kill(process.pid, "SIGTERM");
  if (process.connected) {
    process.on("disconnect", stop);
    // The channel must not keep a finished run alive.
    process.channel?.unref();
  }
  const above = launchers(withShell);
  if (above.length === 0) return;
  const timer = setInterval(() => {
    if (above.every(isAlive)) return;
    clearInterval(timer);
    stop();
  }, EVERY_MS);
  timer.unref();
};
