//go:build !unix

package sse

// stopOnSignal does nothing where there is no such signal.
func stopOnSignal(*ledger) {}
