package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
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

func parseRequest(rt *sobek.Runtime, state *lib.State, address, params sobek.Value) (*request, error) {
	r := &request{
		method:  http.MethodGet,
		header:  http.Header{"Accept": {"text/event-stream"}},
		jar:     state.CookieJar,
		tags:    state.Tags.GetCurrentValues(),
		timeout: defaultTimeout,
	}
	if agent := state.Options.UserAgent.String; agent != "" {
		r.header.Set("User-Agent", agent)
	}
	if err := r.parseURL(address); err != nil {
		return nil, err
	}
	if common.IsNullish(params) {
		return r, nil
	}
	object := params.ToObject(rt)
	for _, key := range object.Keys() {
		value := object.Get(key)
		if common.IsNullish(value) {
			continue
		}
		if err := r.parseParameter(rt, key, value); err != nil {
			return nil, fmt.Errorf("sse.open: %w", err)
		}
	}
	return r, nil
}

func (r *request) parseURL(address sobek.Value) error {
	var exported any
	if address != nil {
		exported = address.Export()
	}
	u, err := httpext.ToURL(exported)
	if err != nil {
		return fmt.Errorf("sse.open: %w", err)
	}
	if scheme := u.GetURL().Scheme; (scheme != "http" && scheme != "https") || u.GetURL().Hostname() == "" {
		return fmt.Errorf("sse.open: the URL is to be an absolute http or https address, not %q", u.Clean())
	}
	r.url = u
	return nil
}

func (r *request) parseParameter(rt *sobek.Runtime, key string, value sobek.Value) (err error) {
	switch key {
	case "method":
		r.method = strings.ToUpper(strings.TrimSpace(value.String()))
	case "headers":
		return r.parseHeaders(value.ToObject(rt))
	case "body":
		r.body, err = common.ToBytes(value.Export())
		r.hasBody = true
		if err != nil {
			return errors.New("body is to be a string or an ArrayBuffer (use JSON.stringify for an object)")
		}
	case "jar":
		jar, ok := value.Export().(*k6http.CookieJar)
		if !ok {
			return errors.New("jar is to be a CookieJar of k6/http")
		}
		r.jar = jar.Jar
	case "tags":
		return common.ApplyCustomUserTags(rt, &r.tags, value)
	case "timeout":
		r.timeout, err = duration(key, value)
	case "firstEventTimeout":
		r.firstEventTimeout, err = duration(key, value)
	case "idleTimeout":
		r.idleTimeout, err = duration(key, value)
	case "charges":
		r.charges = charge(value.String())
		if r.charges != chargeMapLoads && r.charges != chargeAnalyses {
			return fmt.Errorf("charges is to be \"map_loads\" or \"analyses\", but it is %q", r.charges)
		}
	case "closeAfterEvents":
		if number := value.ToFloat(); number >= 1 {
			r.closeAfterEvents = int(number)
			return nil
		}
		return fmt.Errorf("closeAfterEvents is to be a number from 1 on, but it is %q", value.String())
	case "gapSamples":
		r.noGapSamples = !value.ToBoolean()
	case "terminal":
		return r.parseTerminal(value.ToObject(rt))
	default:
		return fmt.Errorf("there is no parameter %q; there are method, headers, body, jar, tags, timeout, firstEventTimeout, idleTimeout, closeAfterEvents, gapSamples, terminal and charges", key)
	}
	return err
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
		ending, ok := map[string]end{"done": endDone, "error": endErrorEvent}[key]
		if !ok {
			return fmt.Errorf("terminal has no %q; it has done and error, each an event name or a list of them", key)
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
