// Command k6 is k6 as Floodgate runs it: the pinned release with our own extension k6/x/sse built in. It exists because k6 takes
// extensions at compile time only, and because a committed go.mod and go.sum make the same binary on every machine.
package main

import (
	_ "floodgate/native/sse"

	"go.k6.io/k6/v2/cmd"
)

func main() {
	cmd.Execute()
}
