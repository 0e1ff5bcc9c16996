package ingest

import (
	"cmp"
	"encoding/base64"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// secrets are those that were sent to a server, which may send them back in
// an error of its own.
type secrets struct {
	mu    sync.Mutex // headers are written by goroutines of net/http
	found []string   // as sent, and as a server may quote them; longest first
}

// minSecret is how long a secret is at least to be searched for in a whole
// message: a shorter one is part of many words.
const minSecret = 4

var word = regexp.MustCompile(`[\pL\pN]+`)

func newSecrets(u *url.URL) *secrets {
	s := &secrets{}
	s.addURL(u)
	return s
}

func (s *secrets) addURL(u *url.URL) {
	if u.User != nil {
		password, _ := u.User.Password()
		s.add(u.User.Username(), password)
		s.add(strings.Split(u.User.String(), ":")...)
	}
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if !isSecretName(name) {
			continue
		}
		s.add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			s.add(plain)
		}
	}
}

// addHeader adds what a header field tells: credentials of any scheme
// and cookies, but not what every client sends.
func (s *secrets) addHeader(name string, values []string) {
	if strings.HasPrefix(name, ":") { // HTTP/2 has the request line as fields
		return
	}
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "content-type", "te", "transfer-encoding":
		return
	}
	for _, value := range values {
		if u, err := url.Parse(value); err == nil && u.Host != "" { // a Referer
			s.addURL(u)
			continue
		}
		s.add(value)
		scheme, credentials, _ := strings.Cut(value, " ")
		s.add(credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			user, password, _ := strings.Cut(string(plain), ":")
			s.add(string(plain), user, password)
		}
		for pair := range strings.SplitSeq(value, ";") {
			_, cookie, _ := strings.Cut(pair, "=")
			s.add(cookie)
		}
	}
}

// add remembers secrets, also as text, HTML and URLs have them.
func (s *secrets) add(plain ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range plain {
		p = strings.TrimSpace(p)
		quoted := strconv.Quote(p)
		for _, form := range [...]string{p, quoted[1 : len(quoted)-1], html.EscapeString(p), url.QueryEscape(p), url.PathEscape(p)} {
			if form != "" && !slices.Contains(s.found, form) {
				s.found = append(s.found, form)
			}
		}
	}
	slices.SortStableFunc(s.found, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
}

// hide is msg without the secrets.
func (s *secrets) hide(msg string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.found {
		if len(secret) >= minSecret {
			msg = strings.ReplaceAll(msg, secret, redacted)
		}
	}
	return hideAssignments(msg)
}

// hideQuote is what a server said without any secret, and without words that
// are one too short to be searched for.
func (s *secrets) hideQuote(said string) string {
	said = scrub(s.hide(said))
	s.mu.Lock()
	defer s.mu.Unlock()
	return word.ReplaceAllStringFunc(said, func(w string) string {
		if slices.Contains(s.found, w) {
			return redacted
		}
		return w
	})
}

// hideError is err with the secrets out of its message.
func (s *secrets) hideError(err error) error {
	if err == nil {
		return nil
	}
	if text := s.hide(err.Error()); text != err.Error() {
		return &hiddenError{text, err}
	}
	return err
}

// hiddenError is an error whose own message is not to be shown.
type hiddenError struct {
	text string
	err  error
}

func (e *hiddenError) Error() string { return e.text }
func (e *hiddenError) Unwrap() error { return e.err }
