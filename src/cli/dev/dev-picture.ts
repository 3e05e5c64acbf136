/** `floodgate dev picture`: the picture of the README, from a recorded run. */

import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { Command } from "commander";
import type { Series } from "../../history/series.ts";
import { pictureOf, THEMES } from "../../report/picture.ts";
import { REPOSITORY } from "../../supervision/repository.ts";
import { RECORDED_BOUNDS, readUserJson } from "../../supervision/user-file.ts";
import { printResult } from "../printing/output.ts";

export const pictureCommand = (): Command =>
  new Command("picture")
    .description("write the pictures of the README, light and dark, from a run folder")
    .argument("[run]", "a run folder", join(REPOSITORY, "reports/sample"))
    .option("--out <folder>", "where they go", join(REPOSITORY, ".github"))
    .action((run: string, { out }: { out: string }) => {
      const series = readUserJson(join(run, "series.json"), RECORDED_BOUNDS) as Series;
      for (const theme of ["light", "dark"] as const) {
        const file = join(out, `overload-${theme}.svg`);
        writeFileSync(file, pictureOf(series, THEMES[theme]));
        printResult(file);
      }
    });
