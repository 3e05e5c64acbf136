package sse

import (
	"sync"
	"time"
)

// board is what the VUs of a process share: k6 gives them nothing that one may write and another read. Scenarios keep session tokens here,
// so that one VU mints a session anew and all others use it.
type board struct {
	mu      sync.Mutex
	notes   map[string]string
	claimed map[string]time.Time // until when nobody else is to see to it
}

func newBoard() *board {
	return &board{notes: map[string]string{}, claimed: map[string]time.Time{}}
}

// recall gives what was last remembered under a name, or null.
func (b *board) recall(name string) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if note, ok := b.notes[name]; ok {
		return note
	}
	return nil
}

// remember keeps a text for all VUs and ends the claim on its name.
func (b *board) remember(name, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes[name] = note
	delete(b.claimed, name)
}

// claim is true for the first VU that asks: it is to see to the name, and no other for so long, unless it remembers something before.
func (b *board) claim(name string, limitMs float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	isFree := !now.Before(b.claimed[name])
	if isFree {
		b.claimed[name] = now.Add(inMilliseconds(limitMs))
	}
	return isFree
}
