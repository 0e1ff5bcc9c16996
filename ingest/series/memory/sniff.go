package memory

import (
	"bytes"
	"regexp"
)

var (
	// The keys that an answer of the API begins with, whoever sorted them.
	apiKey  = regexp.MustCompile(`^\{\s*"(?:status|data|isPartial|errorType|error)"\s*:`)
	apiBody = regexp.MustCompile(`"(?:resultType|errorType|metric)"\s*:`)
	typeOf  = regexp.MustCompile(`^# TYPE \S+ (?:counter|gauge|histogram|gaugehistogram|summary|untyped|unknown|info|stateset)$`)
)

// Sniff says by the first bytes of an input, unpacked, which format its series
// are in; None where it has none. A few kilobytes are enough.
func Sniff(head []byte) Format {
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	if apiKey.Match(head) {
		if apiBody.Match(head) {
			return JSON
		}
		return None
	}
	return sniffText(head)
}

func sniffText(head []byte) Format {
	const enough = 100 // lines with samples
	// The first that has a timestamp tells the unit: 1e11 is the year 5138 in
	// seconds and 1973 in milliseconds.
	const millis = 1e11
	format, good, bad, declared := None, 0, 0, false
	for line := range bytes.Lines(head) {
		if line[len(line)-1] != '\n' && good+bad > 0 {
			break // the head ends within it
		}
		line = bytes.TrimSpace(line)
		switch {
		case len(line) == 0:
			continue
		case string(line) == endOfText:
			declared = true
			if format == None {
				format = OpenMetrics
			}
			continue
		case line[0] == '#':
			declared = declared || typeOf.Match(line)
			continue
		}
		at, ok := looksLikeSample(line)
		if !ok {
			bad++
			continue
		}
		good++
		if line[0] == '{' && bytes.Contains(line, []byte(`__name__="`)) {
			return Dump
		}
		if s, err := parseFloat(at); err == nil && format == None {
			format = OpenMetrics
			if s >= millis || s <= -millis {
				format = Text
			}
		}
		if good == enough {
			break
		}
	}
	switch {
	case !declared && bad*10 >= good: // also where there is nothing

		return None
	case format == None:
		return Text
	}
	return format
}

// looksLikeSample reports whether a line is a sample, and its timestamp.
func looksLikeSample(line []byte) (at []byte, ok bool) {
	series, rest, err := cutSeries(line)
	if err != nil {
		return nil, false
	}
	if _, err := parseSeries(string(series), false); err != nil {
		return nil, false
	}
	rest = bytes.TrimLeft(rest, " \t")
	if isHistogram(rest) {
		return nil, true
	}
	v, rest := cutField(rest)
	if _, err := parseFloat(v); err != nil {
		return nil, false
	}
	at, rest = cutField(rest)
	if len(at) == 0 || at[0] == '#' {
		return nil, true
	}
	_, err = parseFloat(at)
	return at, err == nil && (len(rest) == 0 || rest[0] == '#')
}
