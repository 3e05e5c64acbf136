package sse

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/common"
	k6http "go.k6.io/k6/v2/js/modules/k6/http"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/netext/httpext"
	"go.k6.io/k6/v2/lib/types"
	"go.k6.io/k6/v2/metrics"
	"golang.org/x/net/http/httpguts"
)

// defaultTimeout is the one of k6/http. A stream without any bound could hang its VU for the rest of the test.
const defaultTimeout = milliseconds(60 * time.Second)

// params holds the members of SseParams in scenarios/k6-x-sse.d.ts that are JSON.
type params struct {
	Method            string       `json:"method"`
	Timeout           milliseconds `json:"timeout"` // 0 is none, here and below
	FirstEventTimeout milliseconds `json:"firstEventTimeout"`
	IdleTimeout       milliseconds `json:"idleTimeout"`
	Terminal          struct {
		Done     eventNames `json:"done"`
		Error    eventNames `json:"error"`
		Required bool       `json:"required"` // a stream that had events and ends without a terminal one is cut
	} `json:"terminal"`
	Charges          charge `json:"charges"`
	CloseAfterEvents *int   `json:"closeAfterEvents"`
	GapSamples       bool   `json:"gapSamples"`
}

// milliseconds are given as a number or as text such as "30s".
type milliseconds time.Duration

func (m *milliseconds) UnmarshalJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil || value == nil {
		return err
	}
	parsed, err := types.GetDurationValue(value)
	if err != nil || parsed < 0 {
		return &json.UnmarshalTypeError{Value: string(text), Type: reflect.TypeOf(*m)}
	}
	*m = milliseconds(parsed)
	return nil
}

// eventNames are given as one name or as a list.
type eventNames []string

func (n *eventNames) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*n = eventNames{one}
	} else if json.Unmarshal(text, (*[]string)(n)) != nil {
		return &json.UnmarshalTypeError{Value: string(text), Type: reflect.TypeOf(*n)}
	}
	return nil
}

// decode reads an object of a script, without some of its members, and refuses members that into does not have.
func decode(value sobek.Value, into any, without ...string) error {
	if common.IsNullish(value) {
		return errors.New("expected an object")
	}
	members, isObject := value.Export().(map[string]any)
	if !isObject {
		return fmt.Errorf("expected an object, got %q", value.String())
	}
	for _, name := range without {
		delete(members, name)
	}
	text, err := json.Marshal(members)
	if err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// splitArguments allows open(url, setup), open(url, params) and open(url, params, setup).
func splitArguments(args []sobek.Value) (params sobek.Value, setup sobek.Callable, err error) {
	for at, value := range args {
		call, isFunction := sobek.AssertFunction(value)
		switch {
		case isFunction && at == len(args)-1:
			setup = call
		case at == 0:
			params = value
		case at > 1 || !common.IsNullish(value):
			return nil, nil, errors.New("sse.open: expected a URL, parameters and a setup function")
		}
	}
	return params, setup, nil
}

// kind holds what requests share: the parameters of a script, checked before a byte is sent, because a misspelt time-out that is silently ignored
// would cost a whole run. It is immutable and belongs to one VU.
type kind struct {
	params
	header http.Header
	host   string // "" stands for the URL's
	body   []byte // nil if it states none
	jar    *cookiejar.Jar
	tags   sobek.Value
}

func kindOf(rt *sobek.Runtime, given sobek.Value) (*kind, error) {
	k := &kind{params: params{Method: http.MethodGet, Timeout: defaultTimeout, GapSamples: true}, header: http.Header{}}
	if common.IsNullish(given) {
		return k, nil
	}
	if err := decode(given, &k.params, "headers", "body", "jar", "tags"); err != nil {
		return nil, err
	}
	k.Method = strings.ToUpper(strings.TrimSpace(k.Method))
	if k.Charges != "" && k.Charges != chargeMapLoads && k.Charges != chargeAnalyses {
		return nil, fmt.Errorf("charges: expected %q or %q, got %q", chargeMapLoads, chargeAnalyses, k.Charges)
	}
	if most := k.CloseAfterEvents; most != nil && *most < 1 {
		return nil, fmt.Errorf("closeAfterEvents: expected a number from 1 on, got %d", *most)
	}
	object := given.ToObject(rt)
	k.tags = object.Get("tags")
	if jar := object.Get("jar"); !common.IsNullish(jar) {
		own, ok := jar.Export().(*k6http.CookieJar)
		if !ok {
			return nil, errors.New("jar: expected a CookieJar of k6/http")
		}
		k.jar = own.Jar
	}
	var err error
	if k.host, err = addHeaders(rt, k.header, object.Get("headers")); err != nil {
		return nil, err
	}
	k.body, err = bytesOf(object.Get("body"))
	return k, err
}

type request struct {
	*kind
	out  *http.Request
	url  httpext.URL
	jar  *cookiejar.Jar
	tags metrics.TagsAndMeta
}

// with makes a request of this kind. headers add to those of the kind, and body replaces its body; both may be null.
func (k *kind) with(rt *sobek.Runtime, state *lib.State, address, headers, body sobek.Value) (*request, error) {
	r := &request{kind: k, jar: cmp.Or(k.jar, state.CookieJar), tags: state.Tags.GetCurrentValues()}
	if err := common.ApplyCustomUserTags(rt, &r.tags, k.tags); err != nil {
		return nil, err
	}
	var exported any
	if address != nil {
		exported = address.Export()
	}
	var err error
	if r.url, err = httpext.ToURL(exported); err != nil {
		return nil, err
	}
	if u := r.url.GetURL(); (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return nil, fmt.Errorf("the URL is to be an absolute http or https address, not %q", r.url.Clean())
	}
	text, err := bytesOf(body)
	if err != nil {
		return nil, err
	}
	if text == nil {
		text = k.body
	}
	var sent io.Reader
	switch {
	case text != nil:
		sent = bytes.NewReader(text)
	case slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, k.Method):
		// An empty body that net/http does not know to be empty. Otherwise net/http would send the request again by itself when a kept connection
		// breaks under it, and the target would see one call twice.
		sent = io.MultiReader()
	}
	if r.out, err = http.NewRequest(k.Method, r.url.GetURL().String(), sent); err != nil {
		return nil, err
	}
	r.out.Header.Set("Accept", "text/event-stream")
	if agent := state.Options.UserAgent.String; agent != "" {
		r.out.Header.Set("User-Agent", agent)
	}
	maps.Copy(r.out.Header, k.header)
	host, err := addHeaders(rt, r.out.Header, headers)
	if err != nil {
		return nil, err
	}
	r.out.Host = cmp.Or(host, k.host, r.out.Host)
	if user := r.out.URL.User; user != nil && r.out.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		r.out.SetBasicAuth(user.Username(), password)
	}
	if r.jar != nil {
		for _, cookie := range r.jar.Cookies(r.out.URL) {
			r.out.AddCookie(cookie)
		}
	}
	return r, nil
}

// bytesOf returns a script's body; nil if it states none.
func bytesOf(body sobek.Value) ([]byte, error) {
	if common.IsNullish(body) {
		return nil, nil
	}
	text, err := common.ToBytes(body.Export())
	if err != nil {
		return nil, errors.New("body: expected a string or an ArrayBuffer (use JSON.stringify for an object)")
	}
	return text, nil
}

// addHeaders adds headers, which may be null, and returns the host if they name one. Its error shows no value, which may be a credential.
func addHeaders(rt *sobek.Runtime, to http.Header, given sobek.Value) (host string, err error) {
	if common.IsNullish(given) {
		return "", nil
	}
	object := given.ToObject(rt)
	for _, name := range object.Keys() {
		value := object.Get(name)
		if common.IsNullish(value) {
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value.String()) {
			return "", fmt.Errorf("the header %q cannot be sent: its name or value has characters that HTTP does not allow", name)
		}
		if strings.EqualFold(name, "host") {
			host = value.String()
		} else {
			to.Set(name, value.String())
		}
	}
	return host, nil
}

// ending returns the end that an event of this name means, or "".
func (r *request) ending(name string) end {
	switch {
	case slices.Contains(r.Terminal.Done, name):
		return endDone
	case slices.Contains(r.Terminal.Error, name):
		return endErrorEvent
	}
	return ""
}

// isStream reports whether the call asks for an event stream.
func (r *request) isStream() bool {
	return strings.Contains(r.out.Header.Get("Accept"), "text/event-stream")
}

// name returns the name tag if the script sets none: the template of http.url, or the path without its query.
func (r *request) name() string {
	if r.url.Name != r.url.Clean() {
		return r.url.Name
	}
	return cmp.Or(r.url.GetURL().Path, "/")
}
