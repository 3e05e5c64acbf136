package sse

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The same table stands in src/contract/foreign-text.test.ts.
func TestANameOfTheServerIsAWordOrItsLengthAndHash(t *testing.T) {
	for text, want := range map[string]string{
		"b2b_overloaded":   "b2b_overloaded",
		"tenant_suspended": "tenant_suspended",
		"":                 "other_0_1cd9",
		"Invalid API key":  "other_15_3702",
		"7376635f736b5f6c6976655f616263646566313233": "other_42_21be",
		strings.Repeat("x", 3_000_000):               "other_3000000_3dde",
		"73_69_64_3d_39_66_38_65_37":                 "other_26_d37f",
		"s_v_c_p_k_l_i_v_e":                          "other_17_2bb3",
		"426097393985":                               "other_12_e2ba",
		"svc_sk_l_ive_4f9a_k2mq":                     "other_22_e8cc",
		"http2_h2c_oauth2_tls_1_3":                   "http2_h2c_oauth2_tls_1_3",
		"__proto__":                                  "other_9_eecc",
		"constructor":                                "other_11_6d12",
		"häuser \U0001F600":                          "other_9_5163",
	} {
		expect(t, text[:min(len(text), 40)], foreignName(text), want)
		expect(t, want, foreignName(want), want)
	}
}

func TestNamesOfEventsAreBoundedInNumberAndShape(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range 100 {
			stream(fmt.Sprintf("event: Name %d\ndata: 1\n\n", i))(w, r)
		}
	})
	r := newVU(t).open(url, terminal)
	expect(t, "names", len(r.Names), namesKept)
	for _, name := range r.Names {
		if !strings.HasPrefix(name, "other_") {
			t.Errorf("expected the hash of a name that is no word, got %q", name)
		}
	}
}

func TestAStreamWithoutEndIsLeftAtABound(t *testing.T) {
	defer func(most int) { maxStreamBytes = most }(maxStreamBytes)
	maxStreamBytes = 1 << 20
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			stream(strings.Repeat("data: 1\n\n", 1000))(w, r)
		}
	})
	r := newVU(t).open(url, terminal)
	expect(t, "ended", r.Ended, "closed_by_client")
	expect(t, "error", r.Error, "answer-too-large")
}
