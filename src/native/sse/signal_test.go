//go:build unix

package sse

import (
	"os"
	"syscall"
	"testing"
)

func TestASignalEndsTheLoadInOrder(t *testing.T) {
	v := newVU(t)
	v.run(`sse.budget({})`)
	url, _ := answering(t, 200, "{}")
	expect(t, "before", v.silent(url, `{}`).Ended, "refused")
	if err := syscall.Kill(os.Getpid(), syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	expect(t, "afterwards", eventually(t, func() bool { return v.silent(url, `{}`).Ended == "not_sent" }), true)
}
