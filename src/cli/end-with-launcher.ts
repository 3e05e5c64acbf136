/**
 * Nobody waits any more for a command whose launcher is gone, so it is asked to stop as by SIGTERM. A launcher is:
 *
 * - the old Node that started ours (its channel closes);
 * - npm with its shell: it hands a SIGTERM on no further than that shell, and a kill -9 reaches npm alone;
 * - in a CI job, every process above: a cancelled job signals the shell of its step alone, and what runs below it would go on
 *   until a clean-up ends it hard, with what it has to heal. Elsewhere a shell may end and leave a run behind on purpose
 *   (`nohup`, a closed terminal). `FLOODGATE_END_WITH_PARENT=1` asks for it anywhere, `=0` asks for none in a CI job.
 *
 * Processes are known on Linux alone; elsewhere only the channel is heard.
 */
import { readFileSync } from "node:fs";
import { isAlive, type ProcessId, parentOf, startTimeOf } from "../supervision/processes.ts";

const EVERY_MS = 500;
/** npm, a shell and the launcher make three. */
const NPM_GENERATIONS = 5;
const GENERATIONS_MAX = 64;

/** Set by every CI service, or by one of the well-known ones. */
const OF_CI = [
  ...["CI", "GITHUB_ACTIONS", "RUNNER_TRACKING_ID", "GITLAB_CI", "JENKINS_URL", "JENKINS_NODE_COOKIE"],
  ...["TF_BUILD", "BUILDKITE", "TEAMCITY_VERSION"],
];

const isOn = (value: string | undefined): boolean => value !== undefined && !["", "0", "false"].includes(value);

const endsWithShell = ({ FLOODGATE_END_WITH_PARENT: asked, ...env }: NodeJS.ProcessEnv): boolean =>
  asked === undefined ? OF_CI.some((name) => isOn(env[name])) : isOn(asked);

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
};

/** From our parent upwards. */
const ancestors = (): ProcessId[] => {
  const above: ProcessId[] = [];
  for (let pid = parentOf(process.pid); pid > 1 && above.length < GENERATIONS_MAX; pid = parentOf(pid)) {
    above.push({ pid, start: startTimeOf(pid) ?? "" });
  }
  return above;
};

const launchers = (withShell: boolean): ProcessId[] => {
  const above = ancestors();
  if (withShell && endsWithShell(process.env)) return above;
  const npm = process.env.npm_execpath ?? "";
  // npm puts a title of its own, such as "npm start", in the place of its command line.
  const isNpm = (command: string): boolean => /^np[mx]\b/.test(command) || command.includes(npm);
  const at = npm === "" ? -1 : above.slice(0, NPM_GENERATIONS).findIndex(({ pid }) => isNpm(commandOf(pid)));
  return above.slice(0, at + 1);
};

/** `withShell`: false for what is started to stay behind its shell, such as `serve`. */
export const endWithLauncher = (withShell: boolean): void => {
  const stop = (): void => void process.kill(process.pid, "SIGTERM");
  if (process.connected) {
    process.on("disconnect", stop);
    // Listening to the launcher must not keep a finished run alive.
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
