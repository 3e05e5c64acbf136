/** `floodgate dev …`: for those who work on Floodgate. */

import { Command } from "commander";
import { buildTools } from "../../tools/find-tool.ts";
import { devExploreCommand } from "../explore.ts";
import { printNote, printResult } from "../printing/output.ts";
import { mutantsCommand } from "./dev-mutants.ts";
import { pictureCommand } from "./dev-picture.ts";
import { replayCommand } from "./dev-replay.ts";
import { devServeCommand } from "./dev-serve.ts";

export const devCommand = (): Command => {
  const dev = new Command("dev").description("for those who work on Floodgate");
  dev
    .command("tools")
    .description("build k6 (with k6/x/sse) and toxiproxy into .tools/; nothing happens when nothing changed")
    .action(async () => {
      const { k6, toxiproxy } = await buildTools((line) => void printNote(line));
      printResult(`k6 ${k6.version} ${k6.path}\ntoxiproxy ${toxiproxy.version} ${toxiproxy.path}`);
    });
  dev.addCommand(mutantsCommand());
  dev.addCommand(devServeCommand());
  dev.addCommand(replayCommand());
  dev.addCommand(pictureCommand());
  dev.addCommand(devExploreCommand());
  return dev;
};
