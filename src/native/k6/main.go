// Command k6 is k6 as Floodgate runs it: the pinned release with our own extension k6/x/sse built in. It exists because k6 takes
// extensions at compile time only, and because a committed go.mod and go.sum make the same binary on every machine.
package main

import (
	"os"

	_ "floodgate/native/account"
	"floodgate/native/bundle"
	_ "floodgate/native/sse"

	"go.k6.io/k6/v2/cmd"
)

// The runner names a file here that the bundle of the script is written to, and played from. The script is the last argument.
const bundleVariable = "FLOODGATE_BUNDLE"

func main() {
	if out := os.Getenv(bundleVariable); out != "" && len(os.Args) > 1 {
		script := &os.Args[len(os.Args)-1]
		known := map[string]string{"FLOODGATE_HANDOVER": os.Getenv("FLOODGATE_HANDOVER")}
		// k6 itself says what is wrong with a script that cannot be bundled.
		if bundle.Script(*script, out, known) == nil {
			*script = out
		}
	}
	cmd.Execute()
}
