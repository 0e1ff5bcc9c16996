package ingest

import (
	"net/url"
	"os"
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
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" && u.Host != "" {
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

// DisplayName is an argument as it may be shown. What could be a user and a
// password, all up to the last @, is masked unless a file has that name: a URL
// with its scheme forgotten or mistyped is an argument too.
func DisplayName(arg string) string {
	if strings.Contains(arg, "://") {
		return redactURL(arg)
	}
	if _, err := os.Lstat(arg); err == nil {
		return arg
	}
	if rest := withoutUser(arg); rest != arg {
		arg = redacted + "@" + rest
	}
	path, query, ok := strings.Cut(arg, "?")
	if !ok {
		return arg
	}
	query, _, _ = strings.Cut(query, "#")
	return path + "?" + redactQuery(query)
}

// withoutUser is what follows the user and the password in an address.
func withoutUser(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
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

	// NAME=VALUE and "NAME": "VALUE", whose name says whether it is a secret.
	assignment       = regexp.MustCompile(`([^\s"'=&?;,:(){}\[\]]+)(["'\\]*\s*[=:]\s*["'\\]*)((?i:(?:bearer|basic|token|digest)\s+)?[^\s"'&;,(){}\[\]\\]*[^\s"'&;,(){}\[\]\\:.])`)
	credentialHeader = regexp.MustCompile(`(?i)^(?:(?:proxy-)?authorization|(?:set-)?cookie|x-.*)$`)
	// What follows the name of a scheme (RFC 9110, section 11) in prose is a
	// secret only where it is long: "basic auth".
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,}`)
)

// scrub removes what may be a secret from a message of another package, and
// from a server's answer: URLs in it lose their user and their query, and
// values whose names are those of secrets are replaced.
func scrub(msg string) string {
	msg = userInfo.ReplaceAllString(msg, "://")
	msg = queryString.ReplaceAllString(msg, "?"+redacted)
	return hideAssignments(msg)
}

func hideAssignments(msg string) string {
	msg = bearer.ReplaceAllString(msg, "$1 "+redacted)
	return assignment.ReplaceAllStringFunc(msg, func(s string) string {
		m := assignment.FindStringSubmatch(s)
		// A colon stands in prose too ("unauthorized: try later"), but not
		// after a name in quotes or that of a header.
		prose := strings.TrimSpace(m[2]) == ":" && !credentialHeader.MatchString(m[1])
		if prose || !isSecretName(m[1]) && !credentialHeader.MatchString(m[1]) {
			return m[1] + m[2] + hideAssignments(m[3])
		}
		return m[1] + m[2] + redacted
	})
}
