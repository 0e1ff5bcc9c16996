package ingest

import (
	"net/url"
	"regexp"
	"strings"
)

// redacted stands for a secret; it is the word (*url.URL).Redacted uses.
const redacted = "xxxxx"

// secretWords are the parts of a query parameter's name that mark its value
// as a secret: signed URLs, tokens, sessions.
var secretWords = []string{"token", "key", "sig", "secret", "pass", "pwd", "auth", "cred", "session", "code", "jwt", "hmac"}

func isURL(arg string) bool {
	return hasPrefixFold(arg, "http://") || hasPrefixFold(arg, "https://")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// displayURL is u as it may be shown: without user, password and fragment,
// and with the values of secret-looking query parameters replaced.
func displayURL(u *url.URL) string {
	shown := *u
	shown.User = nil
	shown.Fragment, shown.RawFragment = "", ""
	shown.RawQuery = redactQuery(u.RawQuery)
	return shown.String()
}

// redactURL is displayURL for a string that may not parse: then everything
// that could be a secret is cut rather than replaced.
func redactURL(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" {
		return displayURL(u)
	}
	scheme, rest, _ := strings.Cut(raw, "://")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		rest = rest[:end]
	}
	return scheme + "://" + rest
}

func redactQuery(query string) string {
	var b strings.Builder
	for query != "" {
		pair, rest := query, ""
		sep := ""
		if i := strings.IndexAny(query, "&;"); i >= 0 {
			pair, sep, rest = query[:i], query[i:i+1], query[i+1:]
		}
		if name, _, ok := strings.Cut(pair, "="); ok && isSecretName(name) {
			pair = name + "=" + redacted
		}
		b.WriteString(pair + sep)
		query = rest
	}
	return b.String()
}

func isSecretName(name string) bool {
	if plain, err := url.QueryUnescape(name); err == nil {
		name = plain
	}
	name = strings.ToLower(name)
	for _, w := range secretWords {
		if strings.Contains(name, w) {
			return true
		}
	}
	return false
}

var (
	userInfo    = regexp.MustCompile(`://[^\s"'/]*@`)
	queryString = regexp.MustCompile(`\?[^\s"']*`)
)

// scrub removes what may be a secret from a message of another package, and
// from a server's answer: URLs in it lose their user and their query.
func scrub(msg string) string {
	msg = userInfo.ReplaceAllString(msg, "://")
	return queryString.ReplaceAllString(msg, "?"+redacted)
}
