// Package secret keeps credentials where they belong: out of what is shown, and
// on the host that they are for.
package secret

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

// Redacted stands for a secret; it is the word (*url.URL).Redacted uses.
const Redacted = "xxxxx"

// minSecret is how long a secret is at least to be searched for in a whole
// message: a shorter one is part of many words.
const minSecret = 4

var word = regexp.MustCompile(`[\pL\pN]+`)

// Sent are the secrets that a server was sent, which it may send back in an
// error of its own. The zero value has none; several goroutines may use it at
// the same time.
type Sent struct {
	mu    sync.Mutex
	found []string // as sent, and as a server may quote them; longest first
}

// AddURL adds the user and the password in a URL, and those parameters of its
// query that are secrets by their names.
func (s *Sent) AddURL(u *url.URL) {
	if u.User != nil {
		password, _ := u.User.Password()
		s.Add(u.User.Username(), password)
		s.Add(strings.Split(u.User.String(), ":")...)
	}
	for _, pair := range strings.FieldsFunc(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		name, value, _ := strings.Cut(pair, "=")
		if !isSecretName(name) {
			continue
		}
		s.Add(value)
		if plain, err := url.QueryUnescape(value); err == nil {
			s.Add(plain)
		}
	}
}

// AddHeader adds what a header field tells: credentials of any scheme and
// cookies, but not what every client sends. It is a WroteHeaderField of
// net/http/httptrace, which also sees what a client adds by itself.
func (s *Sent) AddHeader(name string, values []string) {
	if strings.HasPrefix(name, ":") { // HTTP/2 has the request line as fields
		return
	}
	switch strings.ToLower(name) {
	case "host", "user-agent", "accept", "accept-encoding", "connection", "content-length", "content-type", "te", "transfer-encoding", "connect-protocol-version", "connect-timeout-ms":
		return
	}
	for _, value := range values {
		scheme, credentials, _ := strings.Cut(value, " ")
		s.Add(value, credentials)
		if plain, err := base64.StdEncoding.DecodeString(credentials); err == nil && strings.EqualFold(scheme, "basic") {
			user, password, _ := strings.Cut(string(plain), ":")
			s.Add(string(plain), user, password)
		}
		for pair := range strings.SplitSeq(value, ";") {
			_, cookie, _ := strings.Cut(pair, "=")
			s.Add(cookie)
		}
	}
}

// Add remembers secrets, also as text, HTML and URLs have them.
func (s *Sent) Add(plain ...string) {
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

// Hide is msg without the secrets, but for those that are too short to be
// searched for: HideWords takes them.
func (s *Sent) Hide(msg string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.found {
		if len(secret) >= minSecret {
			msg = strings.ReplaceAll(msg, secret, Redacted)
		}
	}
	return msg
}

// HideWords is what a server said without words that are a secret, however
// short. It is not for messages of contend: a user may have the name of a word
// in them.
func (s *Sent) HideWords(said string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return word.ReplaceAllStringFunc(said, func(w string) string {
		if slices.Contains(s.found, w) {
			return Redacted
		}
		return w
	})
}
