// Command k6 is the pinned release of k6 with our extensions, which k6 takes at compile time only.
package main

import (
	"fmt"
	"os"
	"strconv"

	"github.com/evanw/esbuild/pkg/api"
	"go.k6.io/k6/v2/cmd"

	_ "floodgate/native/account"
	_ "floodgate/native/sse"
)

// main plays the script, which is the last argument, from its bundle where the runner names a file for that.
func main() {
	if out := os.Getenv("FLOODGATE_BUNDLE"); out != "" && len(os.Args) > 1 {
		script := &os.Args[len(os.Args)-1]
		known := map[string]string{"FLOODGATE_HANDOVER": os.Getenv("FLOODGATE_HANDOVER")}
		// k6 itself says what is wrong with a script that cannot be bundled.
		if bundle(*script, out, known) == nil {
			*script = out
		}
	}
	cmd.Execute()
}

// bundle writes one script of the script at path and all that it uses, by the compiler that k6 itself has for TypeScript; the known variables of
// the environment decide what is left out, and "sideEffects" of package.json lets modules go of which nothing is used. k6 runs every module of a
// script in every VU: the seventy of a scenario took 7 ms and 0.44 MB for each. open() takes relative paths from where the bundle lies: a scenario
// has none.
func bundle(path, out string, known map[string]string) error {
	define := map[string]string{}
	for name, value := range known {
		define["__ENV."+name] = strconv.Quote(value)
	}
	built := api.Build(api.BuildOptions{
		EntryPoints:  []string{path},
		Outfile:      out,
		Bundle:       true,
		Format:       api.FormatESModule,
		Platform:     api.PlatformNeutral,
		Target:       api.ES2022,
		External:     []string{"k6", "k6/*"},
		Define:       define,
		MinifySyntax: true, // folds what the definitions decide
		TreeShaking:  api.TreeShakingTrue,
		TsconfigRaw:  "{}",
		LogLevel:     api.LogLevelSilent,
	})
	if len(built.Errors) > 0 {
		return fmt.Errorf("%s: %s", path, built.Errors[0].Text)
	}
	return os.WriteFile(out, built.OutputFiles[0].Contents, 0o600)
}
