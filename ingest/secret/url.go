package secret

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"strings"
)

// ServerURL parses the address of a server that a user gives: http or https, with
// a host. example is what errors say was expected. They quote nothing of the
// address, which may have a password in it.
func ServerURL(address, example string) (*url.URL, error) {
	want := "expected a server's URL such as " + example
	u, err := url.Parse(address)
	switch {
	case !strings.Contains(address, "://"):
		return nil, errors.New(want + ", saw one without http:// or https://")
	case err != nil: // not shown: it quotes the URL
		return nil, errors.New(want + ", saw one that cannot be read; a password's special characters are written as %XX")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("%s, saw %s://", want, u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New(want + ", saw one without a host")
	}
	return u, nil
}

// WithoutPath is the cause of an error about a file without the file's name: a
// client has no business to know it, and nobody has asked for that of a part.
func WithoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		return e.Err
	}
	return err
}
