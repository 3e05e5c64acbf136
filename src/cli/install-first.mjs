// Runs before anything else, in the user's Node: installs the packages of a fresh clone and, if that Node is too old
// for TypeScript by type stripping, starts the Node that `npm ci` installs. Any Node from 14.8 on can parse it.
// `node install-first.mjs SCRIPT ARGUMENT…` does both and runs SCRIPT, as `npm test` needs it.
import { spawn, spawnSync } from "node:child_process";
import { existsSync, readFileSync, statSync } from "node:fs";
import { constants } from "node:os";
import { resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const lock = resolve(root, "package-lock.json");
/** Where npm records what it has installed. */
const installed = resolve(root, "node_modules/.package-lock.json");

const versionsIn = (file) => new Map(Object.entries(JSON.parse(readFileSync(file, "utf8")).packages));

const whyInstall = () => {
  if (!existsSync(lock)) return null;
  if (!existsSync(installed)) return "the packages of this clone are not installed yet";
  if (statSync(installed).mtimeMs >= statSync(lock).mtimeMs) return null;
  // A newer lock file may be unchanged: git stamps each file that it writes with the time of the checkout.
  const have = versionsIn(installed);
  const isWithoutDev = ![...have.values()].some(({ dev }) => dev);
  for (const [path, { version, optional, dev }] of versionsIn(lock)) {
    if (path === "" || (!have.has(path) && (optional || (dev && isWithoutDev)))) continue;
    if (have.get(path)?.version !== version) return "package-lock.json has changed";
  }
  return null;
};

export const installFirst = () => {
  const why = whyInstall();
  if (why === null) return;
  process.stderr.write(`floodgate: ${why}: running npm ci (half a minute, once)\n`);
  // npm writes to stderr, because stdout is for results. An npm script's settings are not taken, only its npm.
  const npm = process.env.npm_execpath;
  const [program, ...first] = npm?.endsWith(".js") ? [process.execPath, npm] : ["npm"];
  // The pinned Node is an optional package, which a user's setting `omit` may leave out.
  const args = [...first, "ci", "--include=optional", "--no-audit", "--no-fund", "--loglevel=error"];
  const { status, error } = spawnSync(program, args, { cwd: root, stdio: ["ignore", 2, 2] });
  if (status === 0) return;
  process.stderr.write(
    `floodgate: npm ci ${error === undefined ? `ended with ${status}` : `could not be run (${error.message})`}; see what it says above, mend it and run this again.\n`,
  );
  process.exit(2);
};

/** 24.0 is the first Node with `using`, 24.4 the first with `mkdtempDisposable`; both strip types. */
const NODE_MIN = { major: 24, minor: 4 };

export const isEnough = (version) => {
  const [major, minor] = version.split(".").map(Number);
  return major > NODE_MIN.major || (major === NODE_MIN.major && minor >= NODE_MIN.minor);
};

export const isNewEnough = isEnough(process.versions.node);

export const runByPinnedNode = (args) => {
  const pinned = resolve(root, `node_modules/node-${process.platform}-${process.arch}/bin/node`);
  if (!existsSync(pinned)) {
    process.stderr.write(
      `floodgate: expected Node ${NODE_MIN.major}.${NODE_MIN.minor} or newer, found ${process.versions.node}, and no pinned Node for ${process.platform}-${process.arch} is installed.\n` +
        "Install a newer Node, or run `npm ci --include=optional` (on Linux it brings Node 26 along; a registry that lacks it is named there by --loglevel=verbose).\n",
    );
    process.exit(2);
  }
  // The closing channel shows the child that this process is gone, even after kill -9.
  const child = spawn(pinned, args, { stdio: ["inherit", "inherit", "inherit", "ipc"] });
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  child.on("error", (error) => {
    process.stderr.write(`floodgate: ${pinned} could not be started: ${error.message}\n`);
    process.exitCode = 3;
  });
  child.on("exit", (code, signal) => {
    process.exitCode = code ?? 128 + constants.signals[signal];
  });
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  installFirst();
  const [script, ...args] = process.argv.slice(2);
  if (isNewEnough) {
    process.argv = [process.execPath, resolve(script), ...args];
    import(pathToFileURL(resolve(script)).href);
  } else runByPinnedNode([script, ...args]);
}
