// Command k6 is the pinned release of k6 with our extensions, which k6 takes at compile time only.
package main

import (
	"fmt"
	"os"
	"path/filepath"
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
// the environment decide what is left out. k6 runs every module of a script in every VU: the seventy of a scenario took 7 ms and 0.44 MB for
// each. An import for its effect alone (import "./x.ts") is left out as well, and open() takes relative paths from where the bundle lies: a
// scenario has neither.
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
		Plugins:      []api.Plugin{withoutSideEffects},
	})
	if len(built.Errors) > 0 {
		return fmt.Errorf("%s: %s", path, built.Errors[0].Text)
	}
	return os.WriteFile(out, built.OutputFiles[0].Contents, 0o600)
}

// withoutSideEffects says that a module of which nothing is used, but for those of k6, need not be run.
var withoutSideEffects = api.Plugin{
	Name: "without side effects",
	Setup: func(build api.PluginBuild) {
		build.OnResolve(api.OnResolveOptions{Filter: `^[./]`}, func(args api.OnResolveArgs) (api.OnResolveResult, error) {
			if args.Kind == api.ResolveEntryPoint {
				return api.OnResolveResult{}, nil
			}
			path := args.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(args.ResolveDir, path)
			}
			return api.OnResolveResult{Path: path, SideEffects: api.SideEffectsFalse}, nil
		})
	},
}
