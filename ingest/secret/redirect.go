package secret

import (
	"fmt"
	"net/http"
	"net/url"
)

const maxRedirects = 10 // as net/http's own

// SameHost reports whether what is sent to one address may go to another: the
// same scheme, host and port, or https in place of http on the host.
func SameHost(from, to *url.URL) bool {
	secured := from.Scheme == "http" && to.Scheme == "https" && from.Hostname() == to.Hostname()
	return secured || from.Scheme == to.Scheme && from.Host == to.Host
}

// OnSameHost is c, but follows redirects within SameHost only. net/http takes
// Authorization and cookies off a request to another host, but not to another
// port or a subdomain, and not what a client's own transport adds: a key, a
// tenant. Nor does it follow where a POST would become a GET. What is not
// followed is the answer, with its status of 3xx. See WithoutReferer.
func OnSameHost(c *http.Client) *http.Client {
	out := WithoutReferer(c)
	follow := out.CheckRedirect
	out.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if first := via[0]; req.Method != first.Method || !SameHost(first.URL, req.URL) {
			return http.ErrUseLastResponse
		}
		return follow(req, via)
	}
	return out
}

// WithoutReferer is c, but tells no host that it is redirected to where it came
// from: a URL's query may hold a token.
func WithoutReferer(c *http.Client) *http.Client {
	out := *c
	out.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		req.Header.Del("Referer")
		if c.CheckRedirect != nil {
			return c.CheckRedirect(req, via)
		}
		if len(via) >= maxRedirects {
			return fmt.Errorf("stopped after %d redirects", maxRedirects)
		}
		return nil
	}
	return &out
}
