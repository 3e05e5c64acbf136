package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
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
const defaultTimeout = 60 * time.Second

// request is what the script asked for, checked. Whatever is wrong in it is reported before a byte is sent: a misspelt time-out that was
// silently no time-out would cost a whole run.
type request struct {
	url               httpext.URL
	method            string
	header            http.Header
	host              string
	body              []byte
	hasBody           bool
	jar               *cookiejar.Jar
	tags              metrics.TagsAndMeta
	timeout           time.Duration // whole exchange; 0 is none, here and below
	firstEventTimeout time.Duration // from sending to the first event
	idleTimeout       time.Duration // between two reads of the body
	terminal          map[string]end
	mustEnd           bool // a stream that had events and ends without a terminal one is cut
	charges           charge
	closeAfterEvents  int  // 0 is never
	noGapSamples      bool // the gaps stand in the response alone
}

// unresendable is an empty body. net/http sends a request again by itself when a kept connection breaks under it and its method is GET, HEAD,
// OPTIONS or TRACE: the target would see one call twice, and nobody would know. It does not for a request that has a body of its own.
type unresendable struct{}

func (unresendable) Read([]byte) (int, error) { return 0, io.EOF }
func (unresendable) Close() error             { return nil }

// splitArguments allows open(url, setup), open(url, params) and open(url, params, setup).
func splitArguments(args []sobek.Value) (params sobek.Value, setup sobek.Callable, err error) {
	if len(args) > 2 {
		return nil, nil, fmt.Errorf("sse.open takes a URL, parameters and a setup function, but %d arguments were given", len(args)+1)
	}
	if len(args) > 0 {
		if f, ok := sobek.AssertFunction(args[len(args)-1]); ok {
			setup, args = f, args[:len(args)-1]
		} else if len(args) == 2 && !common.IsNullish(args[1]) {
			return nil, nil, errors.New("sse.open: the last argument is to be a setup function")
		}
	}
	if len(args) > 0 {
		params = args[0]
	}
	return params, setup, nil
}

// kind is what requests have in common: the parameters of a script, checked. It is not changed once it is parsed.
type kind struct {
	request
	ownTags sobek.Value
}

func parseKind(rt *sobek.Runtime, params sobek.Value) (*kind, error) {
	k := &kind{request: request{method: http.MethodGet, header: http.Header{}, timeout: defaultTimeout}}
	if common.IsNullish(params) {
		return k, nil
	}
	object := params.ToObject(rt)
	for _, key := range object.Keys() {
		value := object.Get(key)
		if common.IsNullish(value) {
			continue
		}
		if err := k.parseParameter(rt, key, value); err != nil {
			return nil, err
		}
	}
	return k, nil
}

// with is a request of this kind.
func (k *kind) with(rt *sobek.Runtime, state *lib.State, address sobek.Value) (*request, error) {
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
	return &r, r.parseURL(address)
}

func (r *request) parseURL(address sobek.Value) error {
	var exported any
	if address != nil {
		exported = address.Export()
	}
	u, err := httpext.ToURL(exported)
	if err != nil {
		return err
	}
	if scheme := u.GetURL().Scheme; (scheme != "http" && scheme != "https") || u.GetURL().Hostname() == "" {
		return fmt.Errorf("the URL is to be an absolute http or https address, not %q", u.Clean())
	}
	r.url = u
	return nil
}

func (k *kind) parseParameter(rt *sobek.Runtime, key string, value sobek.Value) (err error) {
	switch key {
	case "method":
		k.method = strings.ToUpper(strings.TrimSpace(value.String()))
	case "headers":
		return k.parseHeaders(value.ToObject(rt))
	case "body":
		return k.parseBody(value)
	case "jar":
		jar, ok := value.Export().(*k6http.CookieJar)
		if !ok {
			return errors.New("jar is to be a CookieJar of k6/http")
		}
		k.jar = jar.Jar
	case "tags":
		k.ownTags = value
	case "timeout":
		k.timeout, err = duration(key, value)
	case "firstEventTimeout":
		k.firstEventTimeout, err = duration(key, value)
	case "idleTimeout":
		k.idleTimeout, err = duration(key, value)
	case "charges":
		k.charges = charge(value.String())
		if k.charges != chargeMapLoads && k.charges != chargeAnalyses {
			return fmt.Errorf("charges is to be \"map_loads\" or \"analyses\", but it is %q", k.charges)
		}
	case "closeAfterEvents":
		if number := value.ToFloat(); number >= 1 {
			k.closeAfterEvents = int(number)
			return nil
		}
		return fmt.Errorf("closeAfterEvents is to be a number from 1 on, but it is %q", value.String())
	case "gapSamples":
		k.noGapSamples = !value.ToBoolean()
	case "terminal":
		return k.parseTerminal(value.ToObject(rt))
	default:
		return fmt.Errorf("there is no parameter %q; there are method, headers, body, jar, tags, timeout, firstEventTimeout, idleTimeout, closeAfterEvents, gapSamples, terminal and charges", key)
	}
	return err
}

func (r *request) parseBody(value sobek.Value) (err error) {
	r.body, err = common.ToBytes(value.Export())
	r.hasBody = true
	if err != nil {
		return errors.New("body is to be a string or an ArrayBuffer (use JSON.stringify for an object)")
	}
	return nil
}

// parseHeaders checks what net/http would refuse, because a header that cannot be sent is an error of the script and no answer of the
// server. The message never shows a value: it may be a credential.
func (r *request) parseHeaders(headers *sobek.Object) error {
	for _, name := range headers.Keys() {
		value := headers.Get(name)
		if common.IsNullish(value) {
			continue
		}
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value.String()) {
			return fmt.Errorf("the header %q cannot be sent: its name or value has characters that HTTP does not allow", name)
		}
		if strings.EqualFold(name, "host") {
			r.host = value.String()
			continue
		}
		r.header.Set(name, value.String())
	}
	return nil
}

func (r *request) parseTerminal(terminal *sobek.Object) error {
	r.terminal = map[string]end{}
	for _, key := range terminal.Keys() {
		if key == "required" {
			r.mustEnd = terminal.Get(key).ToBoolean()
			continue
		}
		ending, ok := map[string]end{"done": endDone, "error": endErrorEvent}[key]
		if !ok {
			return fmt.Errorf("terminal has no %q; it has done and error, each an event name or a list of them, and required", key)
		}
		value := terminal.Get(key)
		if common.IsNullish(value) {
			continue
		}
		names, isList := value.Export().([]any)
		if !isList {
			names = []any{value.Export()}
		}
		for _, name := range names {
			text, ok := name.(string)
			if !ok {
				return fmt.Errorf("terminal.%s is to be an event name or a list of them", key)
			}
			r.terminal[text] = ending
		}
	}
	return nil
}

func duration(key string, value sobek.Value) (time.Duration, error) {
	d, err := types.GetDurationValue(value.Export())
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%s is to be milliseconds or a duration such as \"30s\" and not negative, but it is %q", key, value.String())
	}
	return d, nil
}

// ending is the end that an event of this name means, or "". An event without a name is a "message", as in a browser.
func (r *request) ending(name []byte) end {
	if len(name) == 0 {
		return r.terminal["message"]
	}
	return r.terminal[string(name)]
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
	switch r.method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		body = unresendable{}
	}
	if r.hasBody {
		body = bytes.NewReader(r.body)
	}
	out, err := http.NewRequest(r.method, r.url.GetURL().String(), body)
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
