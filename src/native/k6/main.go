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

// main runs k6. If the runner names a file for a bundle, the script, which is the last argument, is bundled into it first.
func main() {
	if out := os.Getenv("FLOODGATE_BUNDLE"); out != "" && len(os.Args) > 1 {
		script := &os.Args[len(os.Args)-1]
		known := map[string]string{"FLOODGATE_HANDOVER": os.Getenv("FLOODGATE_HANDOVER")}
		// A script that cannot be bundled stays as it is: k6 itself reports what is wrong.
		if bundle(*script, out, known) == nil {
			*script = out
		}
	}
	cmd.Execute()
}

// bundle writes the script at path and all modules that it uses into one file, by esbuild, as k6 itself uses for TypeScript. The known variables of
// the environment and "sideEffects" of package.json let it leave out unused code. k6 runs every module in every VU: the seventy modules of a
// scenario took 7 ms and 0.44 MB per VU. In a bundle, open() resolves relative paths from the bundle's folder; no scenario uses open().
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
