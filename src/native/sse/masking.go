package sse

import (
	"net/http"
	"regexp"
	"strings"
)

// secret is what a credential may look like, as in src/contract/credentials.ts, where more is said about it.
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
		// What stands right behind a mask belongs to the match as well, and may be a secret.
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

// tooLong stands for a body that no envelope of the contract comes near: it is no JSON, so the answer is an edge's.
const tooLong = "<longer than an envelope>"

// likeJSON is what a body of the API may begin with, as in src/contract/envelopes.ts.
var likeJSON = regexp.MustCompile(`^\s*(?:$|[\[{"]|(?:-?\d+(?:\.\d+)?|true|false|null)\s*$)`)

// printable is the part of the body that an outcome is named by: as in scenarios/shared/printing.ts.
func (x *exchange) printable() string {
	isSuccess := x.status >= http.StatusOK && x.status < http.StatusMultipleChoices
	if x.body == "" || isSuccess && likeJSON.MatchString(x.body) && !strings.Contains(x.body, `"error"`) {
		return ""
	}
	if len(x.body) > printedBodyMost {
		if isSuccess && likeJSON.MatchString(x.body) {
			return ""
		}
		return tooLong
	}
	return masked(x.body)
}
