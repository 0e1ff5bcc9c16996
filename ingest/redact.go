package ingest

import (
	"net/url"
	"os"
	"strings"

	"github.com/contend/contend/ingest/secret"
)

func isURL(arg string) bool {
	return hasPrefixFold(arg, "http://") || hasPrefixFold(arg, "https://")
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// redactURL is secret.HideInURL for a string that may not parse: then everything
// that could be a secret is cut rather than replaced.
func redactURL(raw string) string {
	if u, err := url.Parse(raw); err == nil && u.Opaque == "" && u.Host != "" {
		return secret.HideInURL(u)
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
		arg = secret.Redacted + "@" + rest
	}
	path, query, ok := strings.Cut(arg, "?")
	if !ok {
		return arg
	}
	query, _, _ = strings.Cut(query, "#")
	return path + "?" + secret.HideInQuery(query)
}

// withoutUser is what follows the user and the password in an address.
func withoutUser(address string) string {
	return address[strings.LastIndexByte(address, '@')+1:]
}
