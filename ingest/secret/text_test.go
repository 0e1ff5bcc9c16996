package secret

import (
	"net/url"
	"testing"
)

func TestScrub(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"panic at https://me:hunter2@db/?token=hunter2": "panic at https://db/?xxxxx",
		"no /a?b=hunter2 here":                          "no /a?xxxxx here",
		"bad token=hunter2, user=me":                    "bad token=xxxxx, user=me",
		"api_key='hunter2'":                             "api_key='xxxxx'",
		`{"access_token": "hunter2", "user": "me"}`:     `{"access_token": "xxxxx", "user": "me"}`,
		"Authorization: Bearer hunter2":                 "Authorization: xxxxx",
		"Proxy-Authorization: Basic hunter2":            "Proxy-Authorization: xxxxx",
		"unauthorized: token=hunter2":                   "unauthorized: token=xxxxx",
		"sent Bearer hunter2hunter2":                    "sent Bearer xxxxx",
		"unauthorized: try later":                       "unauthorized: try later",
		"use basic auth":                                "use basic auth",
		"a monkey, code 5":                              "a monkey, code 5",
	} {
		if got := Scrub(in); got != want {
			t.Errorf("Scrub(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHideURLs(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"at https://me:hunter2@db/x?token=hunter2 now": "at https://db/x?xxxxx now",
		`parse error in {path=~"/a?", code="500"}`:     `parse error in {path=~"/a?", code="500"}`,
	} {
		if got := HideURLs(in); got != want {
			t.Errorf("HideURLs(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestHideInURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://me:hunter2@h:1/p?a=b&X-Amz-Signature=hunter2;apikey=hunter2#hunter2": "http://h:1/p?a=b&X-Amz-Signature=xxxxx;apikey=xxxxx",
		"http://h/p?acc%65ss_tok%65n=hunter2&token":                                  "http://h/p?acc%65ss_tok%65n=xxxxx&token",
		"http://h/": "http://h/",
	} {
		u, err := url.Parse(in)
		if err != nil {
			t.Fatal(err)
		}
		if got := HideInURL(u); got != want {
			t.Errorf("HideInURL(%q) = %q, want %q", in, got, want)
		}
	}
}
