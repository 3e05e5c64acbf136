package sse

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

func TestAStatedProxyIsUsedForLoopbackToo(t *testing.T) {
	var asked string
	proxy := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked = r.URL.String() }))
	defer proxy.Close()
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment}
	client := http.Client{Transport: throughProxy(transport, address)}
	answer, err := client.Get("http://127.0.0.1:1/v1")
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	if asked != "http://127.0.0.1:1/v1" {
		t.Fatalf("expected the proxy to be asked for the target, got %q", asked)
	}
}
