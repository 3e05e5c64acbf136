package sse

import (
	"net/http"
	"net/url"
	"os"
	"sync"
)

// proxyVariable holds the proxy of the target file. HTTP_PROXY would not do: Go goes to loopback past it.
const proxyVariable = "FLOODGATE_PROXY"

var statedProxy = sync.OnceValue(func() *url.URL {
	proxy, err := url.Parse(os.Getenv(proxyVariable))
	if err != nil || proxy.Host == "" {
		return nil
	}
	return proxy
})

// throughProxy makes a transport use the stated proxy for every host. The caller is the only one that uses the transport.
func throughProxy(transport http.RoundTripper, proxy *url.URL) http.RoundTripper {
	if own, ok := transport.(*http.Transport); ok && proxy != nil {
		own.Proxy = http.ProxyURL(proxy)
	}
	return transport
}
