// Makes the modules of this process load in half of the time. It is imported before them, or by `node --import`.
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import module from "node:module";
import { extname } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const modules = fileURLToPath(new URL("../../node_modules", import.meta.url));

/** Whether `ulimit -f` is set. Node and rolldown write their files when nothing handles SIGXFSZ, which would end the process. */
const areFilesLimited = () => {
  if (process.platform !== "linux") return false;
  // Where /proc cannot be read, the limit is unknown.
  const limits = existsSync("/proc/self/limits") ? readFileSync("/proc/self/limits", "latin1") : "";
  return !/^Max file size +unlimited/m.test(limits);
};

/** Keeps compiled code on disk, for this process and its children: loading a command takes half of the time. */
const keepCompiledCode = () => {
  if (process.env.NODE_COMPILE_CACHE === undefined) {
    if (areFilesLimited()) return;
    process.env.NODE_COMPILE_CACHE = `${modules}/.cache/compiled`;
  }
  module.enableCompileCache?.(process.env.NODE_COMPILE_CACHE);
};

const BUNDLED = ["typebox", "typebox/schema", "typebox/system", "undici", "fast-jwt", "fastify"];

const pathOf = (name) => `${modules}/${name}/package.json`;

/** Re-exports all by name, because a bundle of a CommonJS package alone has no names. */
const entries = {
  name: "entries",
  resolveId: (id) => (id.startsWith("entry:") ? id : null),
  load: async (id) => {
    const name = id.startsWith("entry:") ? id.slice("entry:".length) : null;
    if (name === null) return null;
    const names = Object.keys(await import(name)).filter((key) => key !== "module.exports");
    return `export { ${names} } from "${name}";`;
  },
};

/**
 * Finds copies of packages in a file or two each, because their own 700 take a fifth of a second to load, and makes them where
 * they are missing. Returns `null` where rolldown, which vitest brings, is not installed, or nothing can be written.
 */
const bundledPackages = async () => {
  const packages = BUNDLED.filter((name) => !name.includes("/"));
  if (!packages.every((name) => existsSync(pathOf(name)))) return null;
  const versions = packages.map((name) => `${name}-${JSON.parse(readFileSync(pathOf(name), "utf8")).version}`);
  const folder = `${modules}/.cache/${versions.join("-")}`;
  if (existsSync(folder)) return folder;
  if (areFilesLimited()) return null;
  // Other processes may make it too. Each writes a folder of its own, and the first that is done gives it its name.
  const unfinished = `${folder}.${process.pid}`;
  try {
    mkdirSync(unfinished, { recursive: true });
    const { rolldown } = await import("rolldown");
    const input = Object.fromEntries(BUNDLED.map((name) => [name, `entry:${name}`]));
    const bundle = await rolldown({ input, cwd: modules, platform: "node", logLevel: "silent", plugins: [entries] });
    await bundle.write({ dir: unfinished, entryFileNames: "[name].mjs", chunkFileNames: "[name].mjs" });
    await bundle.close();
    renameSync(unfinished, folder);
  } catch {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return existsSync(folder) ? folder : null;
};

/**
 * Finds modules that name each other by path and extension without Node's search: for the links and `package.json` files on the
 * way it looks at the disk a dozen times for each of a thousand modules, a fifth of the time that loading takes.
 */
const resolveDirectly = (bundle) => {
  const formats = new Map([
    [".ts", "module-typescript"],
    [".mjs", "module"],
  ]);
  const found = new Map();
  if (bundle !== null) for (const name of BUNDLED) found.set(name, pathToFileURL(`${bundle}/${name}.mjs`).href);
  module.registerHooks({
    resolve: (specifier, context, next) => {
      const url = found.get(specifier);
      if (url !== undefined) return { url, format: "module", shortCircuit: true };
      const format = specifier.startsWith(".") ? formats.get(extname(specifier)) : undefined;
      if (format === undefined || context.parentURL?.startsWith("file:") !== true) return next(specifier, context);
      return { url: new URL(specifier, context.parentURL).href, format, shortCircuit: true };
    },
  });
};

keepCompiledCode();
resolveDirectly(await bundledPackages());
