package sse

import (
	"bytes"
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

// defaultTimeout is that of k6/http: a stream without any bound would hang its VU for the rest of the test.
const defaultTimeout = milliseconds(60 * time.Second)

// params are SseParams of scenarios/k6-x-sse.d.ts, but for those that are no JSON.
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

// request is what the script asked for, checked before a byte is sent: a misspelt time-out that was silently none would cost a whole run.
type request struct {
	params
	url    httpext.URL
	header http.Header
	host   string
	body   []byte
	jar    *cookiejar.Jar
	tags   metrics.TagsAndMeta
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

// decode reads an object of a script, without some of its members, and refuses those that into does not have.
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

// unresendable is an empty body. Where a kept connection breaks under a GET, HEAD, OPTIONS or TRACE, net/http sends the request again by itself,
// unless it has a body of its own: the target would see one call twice.
type unresendable struct{}

func (unresendable) Read([]byte) (int, error) { return 0, io.EOF }
func (unresendable) Close() error             { return nil }

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

// kind is what requests have in common: the parameters of a script, checked. It is not changed once it is made.
type kind struct {
	request
	ownTags sobek.Value
}

func kindOf(rt *sobek.Runtime, given sobek.Value) (*kind, error) {
	k := &kind{request: request{params: params{Timeout: defaultTimeout, GapSamples: true}, header: http.Header{}}}
	k.Method = http.MethodGet
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
	k.ownTags = object.Get("tags")
	if jar := object.Get("jar"); !common.IsNullish(jar) {
		own, ok := jar.Export().(*k6http.CookieJar)
		if !ok {
			return nil, errors.New("jar: expected a CookieJar of k6/http")
		}
		k.jar = own.Jar
	}
	return k, k.add(rt, object.Get("headers"), object.Get("body"))
}

// with is a request of this kind.
func (k *kind) with(rt *sobek.Runtime, state *lib.State, address, headers, body sobek.Value) (*request, error) {
	r := k.request
	r.tags = state.Tags.GetCurrentValues()
	if err := common.ApplyCustomUserTags(rt, &r.tags, k.ownTags); err != nil {
		return nil, err
	}
	if r.jar == nil {
		r.jar = state.CookieJar
	}
	r.header = http.Header{"Accept": {"text/event-stream"}}
	if agent := state.Options.UserAgent.String; agent != "" {
		r.header.Set("User-Agent", agent)
	}
	maps.Copy(r.header, k.header)
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
	return &r, r.add(rt, headers, body)
}

// add takes headers and a body that may be null. The message never shows a header's value: it may be a credential.
func (r *request) add(rt *sobek.Runtime, headers, body sobek.Value) (err error) {
	if !common.IsNullish(headers) {
		object := headers.ToObject(rt)
		for _, name := range object.Keys() {
			value := object.Get(name)
			if common.IsNullish(value) {
				continue
			}
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value.String()) {
				return fmt.Errorf("the header %q cannot be sent: its name or value has characters that HTTP does not allow", name)
			}
			if strings.EqualFold(name, "host") {
				r.host = value.String()
			} else {
				r.header.Set(name, value.String())
			}
		}
	}
	if !common.IsNullish(body) {
		if r.body, err = common.ToBytes(body.Export()); err != nil {
			return errors.New("body: expected a string or an ArrayBuffer (use JSON.stringify for an object)")
		}
	}
	return nil
}

// ending is the end that an event of this name means, or "".
func (r *request) ending(name string) end {
	switch {
	case slices.Contains(r.Terminal.Done, name):
		return endDone
	case slices.Contains(r.Terminal.Error, name):
		return endErrorEvent
	}
	return ""
}

// isStream says whether an event stream is asked for.
func (r *request) isStream() bool {
	return strings.Contains(r.header.Get("Accept"), "text/event-stream")
}

// name is the name tag when the script sets none: the template of http.url, or the path without its query.
func (r *request) name() string {
	if r.url.Name != r.url.Clean() {
		return r.url.Name
	}
	if path := r.url.GetURL().Path; path != "" {
		return path
	}
	return "/"
}

// http makes the request as net/http wants it.
func (r *request) http() (*http.Request, error) {
	var body io.Reader
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		body = unresendable{}
	}
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequest(r.Method, r.url.GetURL().String(), body)
	if err != nil {
		return nil, err
	}
	out.Header = r.header
	if r.host != "" {
		out.Host = r.host
	}
	if user := out.URL.User; user != nil && out.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		out.SetBasicAuth(user.Username(), password)
	}
	if r.jar != nil {
		for _, cookie := range r.jar.Cookies(out.URL) {
			out.AddCookie(cookie)
		}
	}
	return out, nil
}
