import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterEach, beforeEach, expect, test } from "vitest";
import { REPOSITORY } from "./run-folder.ts";

const run = promisify(execFile);
const LOADER = "src/supervision/quick-imports.mjs";

let clone: string;
beforeEach(async () => {
  clone = await mkdtemp(join(tmpdir(), "floodgate-quick-imports-"));
  await cp(join(REPOSITORY, LOADER), join(clone, LOADER), { recursive: true });
  await mkdir(join(clone, "node_modules"));
  for (const name of ["typebox", "undici", "fast-jwt", "fastify", "rolldown"])
    await symlink(join(REPOSITORY, "node_modules", name), join(clone, "node_modules", name));
  await writeFile(
    join(clone, "main.mjs"),
    `import { Type } from "typebox";
     import { Compile, Errors } from "typebox/schema";
     import { Settings } from "typebox/system";
     import { createSigner } from "fast-jwt";
     import fastify from "fastify";
     import { Pool } from "undici";
     Settings.Set({ maxErrors: 1 });
     const schema = Type.Object({ a: Type.String(), b: Type.Integer() });
     const told = [Compile(schema).Check({ a: "", b: 1 }), Errors(schema, { a: 1, b: "" })[1].length];
     const server = fastify();
     server.get("/", async () => createSigner({ key: "secret" })({}));
     const pool = new Pool(await server.listen({ port: 0, host: "127.0.0.1" }));
     const answer = await pool.request({ path: "/", method: "GET" });
     told.push((await answer.body.text()).split(".").length);
     await pool.close();
     await server.close();
     console.log(told.join(), import.meta.resolve("typebox"), import.meta.resolve("undici"));`,
  );
});
afterEach(() => rm(clone, { recursive: true, force: true }));

const start = async (): Promise<string[]> => {
  const { stdout } = await run(process.execPath, ["--import", join(clone, LOADER), join(clone, "main.mjs")]);
  return stdout.trim().split(" ");
};
const cached = () => readdir(join(clone, "node_modules/.cache"));

test("three processes at once make one copy of packages, whose entries share their state, and the next one uses it", async () => {
  const first = await Promise.all([start(), start(), start()]);
  const names = (await cached()).filter((name) => name !== "compiled");
  expect(names).toEqual([expect.stringMatching(/^typebox-\d+\.\d+\.\d+-undici-/)]);
  for (const [told, ...urls] of [...first, await start()]) {
    expect(told).toBe("true,1,3");
    expect(urls).toEqual(
      ["typebox", "undici"].map((name) => expect.stringContaining(`/node_modules/.cache/${names[0]}/${name}.mjs`)),
    );
  }
});

test.each(["nothing can be written", "there is no rolldown"])(
  "where %s, packages are loaded as they are",
  async (why) => {
    if (why === "there is no rolldown") await rm(join(clone, "node_modules/rolldown"));
    else await writeFile(join(clone, "node_modules/.cache"), "");
    const [told, url] = await start();
    expect(told).toBe("true,1,3");
    expect(url).toContain("/node_modules/typebox/build/");
    if (why === "there is no rolldown") expect((await cached()).filter((name) => name !== "compiled")).toEqual([]);
  },
);
