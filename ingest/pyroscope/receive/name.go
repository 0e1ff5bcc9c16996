package receive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// Pyroscope's own servers take about as many labels, and names shorter still.
	maxName       = 4096 // bytes, labels among them
	maxLabels     = 40
	maxLabelValue = 1024 // bytes
	// Of the application's name, as that of a host; it is in each file's path and each line of a report.
	maxJob = 255 // bytes
	// Of an instance as reports show it: longer ones are cut.
	maxInstance = 128 // bytes

	// A process whose clock is ahead by more sends profiles of no known time.
	maxAhead = 5 * time.Minute
	// Clients push each 15 seconds as a rule; a profile of longer says little of now.
	maxSpan = 24 * time.Hour
)

// pusher is the process that pushes, as the name of a push tells it.
type pusher struct {
	job      string // the application's name
	instance string // the label that tells its processes apart; "" where it has none
	key      string // equal for all pushes of one process
}

// parseName reads NAME{LABEL=VALUE,...}, the query parameter name of a push, in
// the grammar of github.com/grafana/pyroscope-go/internal/labelset: values are
// not quoted, and so have neither comma nor brace. Unlike there, what follows the
// closing brace, a label that comes twice and control characters are errors.
func parseName(name string) (pusher, error) {
	switch {
	case name == "":
		return pusher{}, errors.New("expected the parameter name, as name=gateway{instance=a}, saw none")
	case len(name) > maxName:
		return pusher{}, fmt.Errorf("expected a name of at most %d bytes with its labels, saw %d", maxName, len(name))
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl):
		return pusher{}, errors.New("expected a name in UTF-8 without control characters, saw others")
	}
	job, rest, braced := strings.Cut(name, "{")
	job = strings.TrimSpace(job)
	if job == "" || strings.ContainsFunc(job, func(c rune) bool { return !isNameRune(c) && c != '-' && c != '/' }) {
		return pusher{}, fmt.Errorf("expected a name of letters, digits and -./_ before its labels, saw %q", job)
	}
	if len(job) > maxJob {
		return pusher{}, fmt.Errorf("expected a name of at most %d bytes before its labels, saw %d", maxJob, len(job))
	}
	labels := map[string]string{}
	if braced {
		list, closed := strings.CutSuffix(strings.TrimSpace(rest), "}")
		if !closed || strings.ContainsAny(list, "{}") {
			return pusher{}, errors.New("expected one list of labels that ends the name with }, saw another form; a label's value cannot have braces")
		}
		if err := parseLabels(labels, list); err != nil {
			return pusher{}, err
		}
	}
	return identify(job, labels), nil
}

// parseLabels adds what list has, as a=1,b=2, to labels. Those without a value do not count.
func parseLabels(labels map[string]string, list string) error {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	seen := map[string]bool{}
	for pair := range strings.SplitSeq(list, ",") {
		label, value, ok := strings.Cut(pair, "=")
		label, value = strings.TrimSpace(label), strings.TrimSpace(value)
		switch {
		case !ok:
			return fmt.Errorf("expected labels as LABEL=VALUE, saw %q; a label's value cannot have a comma", label)
		case label == "" || strings.ContainsFunc(label, func(c rune) bool { return !isNameRune(c) }):
			return fmt.Errorf("expected labels of letters, digits, _ and ., saw %q", label)
		case label == "__name__" || seen[label]:
			return fmt.Errorf("expected each label once, saw %s again", label)
		case len(value) > maxLabelValue:
			return fmt.Errorf("expected values of at most %d bytes, saw one of %d for %s", maxLabelValue, len(value), label)
		case len(seen) == maxLabels:
			return fmt.Errorf("expected at most %d labels, saw more", maxLabels)
		}
		seen[label] = true
		if value != "" {
			labels[label] = value
		}
	}
	return nil
}

// isNameRune is what both an application's name and a label's may have.
func isNameRune(c rune) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '.'
}

// identify tells processes apart by all their labels. The client names in
// otel.scope.* which part of it took a profile: goroutines and waits of one process differ there.
//
// The client's __session_id__ is a number drawn from a generator that begins with a
// hash of the host's name (session_id.go): it tells hosts and pods apart, and
// neither two processes of a host nor one that began anew.
func identify(job string, labels map[string]string) pusher {
	delete(labels, "otel.scope.name")
	delete(labels, "otel.scope.version")
	var key strings.Builder
	key.WriteString(job)
	for _, label := range slices.Sorted(maps.Keys(labels)) {
		// Neither has a control character, so that no two sets have one key.
		key.WriteString("\n" + label + "=" + labels[label])
	}
	instance := cmp.Or(labels["instance"], labels["pod"], labels["hostname"], labels["__session_id__"])
	if len(instance) > maxInstance {
		instance = strings.ToValidUTF8(instance[:maxInstance], "") + "…"
	}
	return pusher{job: job, instance: instance, key: key.String()}
}

// folder is where the profiles of a process are, never a path out of there: for people the beginning
// of its name, and to be of no other process a hash of all its labels.
func (p pusher) folder() string {
	sum := sha256.Sum256([]byte(p.key))
	name := plainName(p.job)
	if p.instance != "" {
		name += "-" + plainName(p.instance)
	}
	return name + "-" + hex.EncodeToString(sum[:6])
}

// plainName is text as part of a file's name, neither hidden nor long.
func plainName(text string) string {
	name := strings.Map(func(c rune) rune {
		if isNameRune(c) || c == '-' {
			return c
		}
		return '_'
	}, text)
	name = name[:min(len(name), 40)] // of one byte each
	if strings.HasPrefix(name, ".") {
		return "_" + name[1:]
	}
	return name
}

// parseSpan reads from and until, the interval that a push is of. now is the
// receiver's time, window how long it keeps a profile.
func parseSpan(q url.Values, now time.Time, window time.Duration) (from, until time.Time, err error) {
	if from, err = parseTime("from", q.Get("from")); err != nil {
		return from, until, err
	}
	if until, err = parseTime("until", q.Get("until")); err != nil {
		return from, until, err
	}
	switch {
	case until.Before(from):
		err = errors.New("expected until after from, saw it before")
	case until.Sub(from) > maxSpan:
		err = fmt.Errorf("expected at most %v from from to until, saw %v", maxSpan, until.Sub(from).Round(time.Second))
	case until.Sub(now) > maxAhead:
		err = fmt.Errorf("expected a profile of the past, saw one that ends in %v; set the clocks", until.Sub(now).Round(time.Second))
	case now.Sub(until) > window:
		err = fmt.Errorf("expected a profile of the last %v, which are kept, saw one that ended %v ago; set the clocks, or --window", window, now.Sub(until).Round(time.Second))
	}
	return from, until, err
}

// parseTime reads Unix time: nanoseconds from pyroscope-go, seconds as Pyroscope's
// documentation writes them, milliseconds or microseconds. Their digits tell
// which, from the year 1973 to 2286.
func parseTime(what, text string) (time.Time, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || n < 1e8:
		return time.Time{}, fmt.Errorf("expected %s as Unix time, in nanoseconds or seconds, saw %.40q", what, text)
	case n < 1e11:
		return time.Unix(n, 0), nil
	case n < 1e14:
		return time.UnixMilli(n), nil
	case n < 1e17:
		return time.UnixMicro(n), nil
	}
	return time.Unix(0, n), nil
}
