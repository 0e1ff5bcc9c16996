package secret

import (
	"net/url"
	"regexp"
	"strings"
)

// secretWords are the parts of a query parameter's name that mark its value
// as a secret: signed URLs, tokens, sessions.
var secretWords = []string{"token", "key", "sig", "secret", "pass", "pwd", "auth", "cred", "session", "code", "jwt", "hmac"}

var (
	userInfo    = regexp.MustCompile(`://[^\s"'/]*@`)
	urlQuery    = regexp.MustCompile(`(://[^\s"'?]*)\?[^\s"']*`)
	queryString = regexp.MustCompile(`\?[^\s"']*`)

	// NAME=VALUE and "NAME": "VALUE", whose name says whether it is a secret.
	assignment       = regexp.MustCompile(`([^\s"'=&?;,:(){}\[\]]+)(["'\\]*\s*[=:]\s*["'\\]*)((?i:(?:bearer|basic|token|digest)\s+)?[^\s"'&;,(){}\[\]\\]*[^\s"'&;,(){}\[\]\\:.])`)
	credentialHeader = regexp.MustCompile(`(?i)^(?:(?:proxy-)?authorization|(?:set-)?cookie|x-.*)$`)
	// What follows the name of a scheme (RFC 9110, section 11) in prose is a
	// secret only where it is long: "basic auth".
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}`)
)

// HideInURL is u as it may be shown: without user, password and fragment,
// and with the values of secret-looking query parameters replaced.
func HideInURL(u *url.URL) string {
	shown := *u
	shown.User = nil
	shown.Fragment, shown.RawFragment = "", ""
	shown.RawQuery = HideInQuery(u.RawQuery)
	return shown.String()
}

// HideInQuery is a URL's raw query with the values of secret-looking parameters
// replaced.
func HideInQuery(query string) string {
	var b strings.Builder
	for query != "" {
		pair, rest := query, ""
		sep := ""
		if i := strings.IndexAny(query, "&;"); i >= 0 {
			pair, sep, rest = query[:i], query[i:i+1], query[i+1:]
		}
		if name, _, ok := strings.Cut(pair, "="); ok && isSecretName(name) {
			pair = name + "=" + Redacted
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

// HideURLs is msg without the user and the query of any URL in it.
func HideURLs(msg string) string {
	msg = userInfo.ReplaceAllString(msg, "://")
	return urlQuery.ReplaceAllString(msg, "$1?"+Redacted)
}

// Scrub removes what may be a secret from a message of another package, and
// from a server's answer: URLs in it lose their user, URLs and paths their
// query, and values whose names are those of secrets are replaced. It is not
// for messages that quote expressions, whose labels have such names too.
func Scrub(msg string) string {
	msg = userInfo.ReplaceAllString(msg, "://")
	msg = queryString.ReplaceAllString(msg, "?"+Redacted)
	return HideValues(msg)
}

// HideValues replaces the values in msg whose names are those of secrets.
func HideValues(msg string) string {
	msg = bearer.ReplaceAllString(msg, "$1 "+Redacted)
	return assignment.ReplaceAllStringFunc(msg, func(s string) string {
		m := assignment.FindStringSubmatch(s)
		// A colon stands in prose too ("unauthorized: try later"), but not
		// after a name in quotes or that of a header.
		prose := strings.TrimSpace(m[2]) == ":" && !credentialHeader.MatchString(m[1])
		if prose || !isSecretName(m[1]) && !credentialHeader.MatchString(m[1]) {
			return m[1] + m[2] + HideValues(m[3])
		}
		return m[1] + m[2] + Redacted
	})
}
