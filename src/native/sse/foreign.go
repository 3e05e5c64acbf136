package sse

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode/utf16"
)

// The boundary for foreign text, as in src/contract/foreign-text.ts.
const (
	namesKept    = 32       // distinct names of one stream's events
	envelopeMost = 16 << 10 // longest body of a refusal that is read, in units of UTF-16, as JavaScript counts
	hashedMost   = 4096
)

var (
	plainName = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	noWord    = regexp.MustCompile(`[a-z]{25,}|[a-z][0-9]+[a-z]+[0-9]|[0-9][a-z]+[0-9]+[a-z]|(?:[0-9][^0-9]*){9}`)
	inPieces  = regexp.MustCompile(`^(?:[a-z0-9]{1,2}_){5}[a-z0-9]{1,2}(?:_|$)|_(?:[a-z0-9]{1,2}_){5}[a-z0-9]{1,2}(?:_|$)`)
	mixed     = regexp.MustCompile(`[a-z0-9]{16,}`)
	madeHere  = regexp.MustCompile(`^other_[0-9]{1,9}_[0-9a-f]{4}$`)
)

// foreignName returns a plain word as it is, and any other text as its length and hash.
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

// isCoded reports whether the text mixes letters and digits for longer than words do, or consists of many short pieces.
func isCoded(text string) bool {
	if inPieces.MatchString(text) {
		return true
	}
	return slices.ContainsFunc(mixed.FindAllString(text, -1), func(run string) bool { return strings.ContainsAny(run, "0123456789") })
}

// secret matches what may be a credential, as in src/contract/credentials.ts.
var (
	secret        = regexp.MustCompile(`svc_(?:pk|sk|sess)_[A-Za-z0-9_.~+/=%-]{6,}|eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{3,}\.[A-Za-z0-9_-]{3,}`)
	alreadyMasked = regexp.MustCompile(`^svc_(?:pk|sk|sess)_(?:[a-z]+_)?\.\.\.`)
	prefix        = regexp.MustCompile(`^svc_(?:pk|sk|sess)_(?:(?:live|test)_)?`)
)

// masked replaces every credential in a text by its prefix and last four characters.
func masked(text string) string {
	if !strings.Contains(text, "svc_") && !strings.Contains(text, "eyJ") {
		return text
	}
	return secret.ReplaceAllStringFunc(text, func(found string) string {
		// The text right behind a mask belongs to the match as well and may be a secret.
		if mask := alreadyMasked.FindString(found); mask != "" {
			return mask + masked(found[len(mask):])
		}
		shown := prefix.FindString(found)
		if shown == "" {
			shown = found[:3]
		}
		return shown + "..." + found[len(found)-4:]
	})
}

// tooLong replaces a body longer than any envelope of the contract, and longPage one that begins like HTML. Neither is JSON.
const (
	tooLong  = "longer than an envelope"
	longPage = "<longer than an envelope>"
)

func isTooLong(body string) bool {
	if len(body) <= envelopeMost {
		return false
	}
	units := 0
	for _, char := range body {
		units += max(1, utf16.RuneLen(char))
	}
	return units > envelopeMost
}

// likeJSON matches bodies that may be the API's, by how they begin, as in src/contract/refusals.ts.
var likeJSON = regexp.MustCompile(`^\s*(?:$|[\[{"]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)`)

// printable returns the part of the body that the outcome is derived from; of a minted session, only the fields that judges read.
func (x *exchange) printable(isSession bool) string {
	isSuccess := x.Status >= http.StatusOK && x.Status < http.StatusMultipleChoices
	if isSuccess && isSession {
		if fields := fieldsOf(x.Body); fields != nil {
			read := map[string]any{}
			for _, name := range []string{"expires_in", "product"} {
				if value, has := fields[name]; has {
					read[name] = foreignValue(value)
				}
			}
			text, _ := json.Marshal(read)
			return string(text)
		}
	}
	switch mayBeJSON := isSuccess && likeJSON.MatchString(x.Body); {
	case mayBeJSON && !strings.Contains(x.Body, `"error"`):
		return ""
	case !isTooLong(x.Body):
		return masked(x.Body)
	case mayBeJSON:
		return ""
	case strings.HasPrefix(strings.TrimSpace(x.Body), "<"):
		return longPage
	}
	return tooLong
}

// foreignValue makes a field of an answer printable: numbers stay, texts go through foreignName.
func foreignValue(value any) any {
	switch value := value.(type) {
	case string:
		return foreignName(value)
	case []any:
		return fmt.Sprintf("list_%d", len(value))
	case map[string]any:
		return fmt.Sprintf("object_%d", len(value))
	}
	return value
}
