package promapi

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// redacted stands for a secret; it is the word (*url.URL).Redacted uses.
const redacted = "xxxxx"

// minSecret is how long a secret is at least to be searched for within words.
const minSecret = 4

var (
	userInfo    = regexp.MustCompile(`://[^\s"'/]*@`)
	queryString = regexp.MustCompile(`(://[^\s"'?]*)\?[^\s"']*`)
	word        = regexp.MustCompile(`[\pL\pN]+`)
)

// secrets are those that were sent to a server, which may send them back in an
// error of its own.
type secrets struct {
	mu    sync.Mutex // headers are written by goroutines of net/http
	found []string   // longest first
}

func newSecrets(base *url.URL) *secrets {
	s := &secrets{}
	if base.User != nil {
		password, _ := base.User.Password()
		s.add(base.User.Username(), password)
	}
	for _, values := range base.Query() {
		s.add(values...)
	}
	return s
}

// addHeader adds what a header field tells, but for those that every client
// sends.
func (s *secrets) addHeader(name string, values []string) {
	if strings.HasPrefix(name, ":") { // HTTP/2 has the request line as fields
		return
	}
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "content-type", "te", "transfer-encoding":
		return
	}
	for _, value := range values {
		scheme, credentials, _ := strings.Cut(value, " ")
		s.add(value, credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			user, password, _ := strings.Cut(string(plain), ":")
			s.add(user, password)
		}
	}
}

func (s *secrets) add(plain ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range plain {
		for _, form := range [...]string{p, url.QueryEscape(p), url.PathEscape(p)} {
			if form != "" && !slices.Contains(s.found, form) {
				s.found = append(s.found, form)
				slices.SortStableFunc(s.found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
			}
		}
	}
}

// hide is msg without what was sent in secret, and without the user and the
// query of any URL.
func (s *secrets) hide(msg string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.found {
		if len(secret) >= minSecret {
			msg = strings.ReplaceAll(msg, secret, redacted)
		}
	}
	msg = userInfo.ReplaceAllString(msg, "://")
	msg = queryString.ReplaceAllString(msg, "$1?"+redacted)
	return word.ReplaceAllStringFunc(msg, func(w string) string {
		if slices.Contains(s.found, w) {
			return redacted
		}
		return w
	})
}
