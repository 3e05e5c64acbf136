/** `floodgate dev serve`: a role of the platform with a mutant planted, for judges that meet it only as processes. */
import { Command } from "commander";
import { MUTANTS } from "../../mutants/catalogue.ts";
import { HEALTHY } from "../../platform/parts.ts";
import { EXIT } from "../../run/exit-codes.ts";
import { CommandError } from "../command-error.ts";
import { addServeOptions, type ServeOptions } from "../options/serve-options.ts";
import { serve } from "../serve.ts";

export const devServeCommand = (): Command =>
  addServeOptions(
    new Command("serve")
      .description("`serve` with a mutant planted")
      .requiredOption("--mutant <name>", "the behaviour that is spoilt"),
  ).action((options: ServeOptions & { mutant: string }) => {
    const mutant = MUTANTS.find(({ name }) => name === options.mutant);
    if (mutant === undefined) throw new CommandError(EXIT.usage, `there is no mutant "${options.mutant}"`);
    return serve(options, mutant.spoil(HEALTHY));
  });
