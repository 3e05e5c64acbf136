package sse

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"unicode/utf16"
)

// Bounds of foreign text. Its shape is checked by the reader of the lines, by src/contract/foreign-text.ts.
const (
	namesKept    = 32       // distinct names of one stream's events
	textMost     = 1000     // bytes of a text other than a body
	envelopeMost = 16 << 10 // longest body of a refusal that is read, in units of UTF-16, as JavaScript counts
)

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

// shortened masks and bounds a text other than a body: a name, a header, an error that quotes the server.
func shortened(text string) string {
	text = masked(text)
	return text[:min(len(text), textMost)]
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
			maps.DeleteFunc(fields, func(name string, _ any) bool { return name != "expires_in" && name != "product" })
			text, _ := json.Marshal(fields)
			return shortened(string(text))
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
