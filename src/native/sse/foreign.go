package sse

import (
	"fmt"
	"regexp"
	"unicode/utf16"
)

// The boundary for foreign text, as in src/contract/foreign-text.ts, where more is said about it.
const (
	namesKept       = 32       // distinct names of one stream's events
	printedBodyMost = 16 << 10 // a refusal is named by at most so much of its body
	hashedMost      = 4096
)

var (
	plainName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	noWord    = regexp.MustCompile(`[a-z]{25,}|[a-z][0-9]+[a-z]+[0-9]|[0-9][a-z]+[0-9]+[a-z]|(?:[0-9][^0-9]*){9}`)
	inPieces  = regexp.MustCompile(`^(?:[a-z0-9]{1,2}_){5}[a-z0-9]{1,2}(?:_|$)|_(?:[a-z0-9]{1,2}_){5}[a-z0-9]{1,2}(?:_|$)`)
	mixed     = regexp.MustCompile(`[a-z0-9]{16,}`)
	digit     = regexp.MustCompile(`[0-9]`)
	madeHere  = regexp.MustCompile(`^other_[0-9]{1,9}_[0-9a-f]{4}$`)
)

// foreignName shows a word of the server as it is, and anything else as its length and hash.
func foreignName(text string) string {
	isWord := plainName.MatchString(text) && !noWord.MatchString(text) && !isCoded(text)
	if madeHere.MatchString(text) || isWord && text != "__proto__" && text != "constructor" {
		return text
	}
	units := utf16.Encode([]rune(text))
	hash := uint32(0x811c9dc5)
	for _, unit := range units[:min(len(units), hashedMost)] {
		hash = (hash ^ uint32(unit)) * 0x01000193
	}
	return fmt.Sprintf("other_%d_%04x", len(units), (hash^hash>>16)&0xffff)
}

// isCoded finds letters and digits mixed at a length that words do not have, and texts in many short pieces.
func isCoded(text string) bool {
	if inPieces.MatchString(text) {
		return true
	}
	for _, run := range mixed.FindAllString(text, -1) {
		if digit.MatchString(run) {
			return true
		}
	}
	return false
}
