package rules

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Format is the kind of file that rules are written in.
type Format string

const (
	Prometheus Format = "prometheus" // also of Thanos and VictoriaMetrics
	Operator   Format = "operator"   // prometheus-operator's PrometheusRule
	Mimir      Format = "mimir"      // mimirtool's: rules sync and load
)

// Formats are all of them.
var Formats = []Format{Prometheus, Operator, Mimir}

// Header is what a file begins with.
type Header struct {
	Version string // of contend
	Command string // that wrote the file
	// Labels are the metadata labels of a PrometheusRule, by which an operator
	// selects it.
	Labels []Pair
}

// Encode writes a group as a file: the same group is the same bytes. It
// is written by hand since no YAML library in use writes comments and leaves
// long lines whole; the tests read it with Prometheus' own.
func Encode(g *Group, f Format, h Header) []byte {
	w := &writer{}
	w.comment("Written by " + h.Version + ":")
	w.comment("  " + h.Command)
	w.comment("Write it again rather than edit it. What --set changes stands above each alert;")
	w.comment("for, keep_firing_for and severity can be set too: --set ContendInflightCPU.for=1m")
	for _, l := range g.LeftOut {
		w.comment("left out: " + l.String())
	}
	switch f {
	case Operator:
		w.line("apiVersion: monitoring.coreos.com/v1")
		w.line("kind: PrometheusRule")
		w.line("metadata:")
		w.line("  name: " + g.Name)
		w.indent = "  "
		w.pairs("labels", h.Labels)
		w.indent = ""
		w.line("spec:")
		w.indent = "  "
	case Mimir:
		w.line("namespace: " + g.Name)
	}
	w.line("groups:")
	w.indent += "  "
	w.line("- name: " + g.Name)
	w.indent += "  "
	w.line("interval: " + duration(g.Interval))
	w.line("rules:")
	w.indent += "  "
	for i := range g.Rules {
		w.rule(&g.Rules[i])
	}
	return []byte(w.text.String())
}

type writer struct {
	text   strings.Builder
	indent string
}

func (w *writer) line(text string) {
	w.text.WriteString(w.indent + text + "\n")
}

// comment writes one line, whatever is in it.
func (w *writer) comment(text string) {
	w.line("# " + strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, text))
}

func (w *writer) rule(r *Rule) {
	if r.Comment != "" {
		w.comment(r.Comment)
	}
	if r.Record != "" {
		w.line("- record: " + scalar(r.Record))
	} else {
		w.line("- alert: " + scalar(r.Alert))
	}
	outer := w.indent
	w.indent += "  "
	w.value("expr", r.Expr)
	w.duration("for", r.For)
	w.duration("keep_firing_for", r.KeepFiringFor)
	w.pairs("labels", r.Labels)
	w.pairs("annotations", r.Annotations)
	w.indent = outer
}

func (w *writer) duration(key string, d time.Duration) {
	if d > 0 {
		w.line(key + ": " + duration(d))
	}
}

func (w *writer) pairs(key string, pairs []Pair) {
	if len(pairs) == 0 {
		return
	}
	w.line(key + ":")
	outer := w.indent
	w.indent += "  "
	for _, p := range pairs {
		w.value(p.Name, p.Value)
	}
	w.indent = outer
}

// value writes a text that people read as it is, and quotes what YAML or a terminal would change.
func (w *writer) value(key, text string) {
	odd := strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
	if !odd && strings.ContainsAny(text, "\n\"\\") && strings.TrimSpace(text) != "" && strings.Trim(text, "\n") == strings.TrimRight(text, " \n") {
		// How far it is indented is said where its first line has spaces of its own.
		style := "|-"
		if text[0] == ' ' {
			style = "|2-"
		}
		w.line(scalar(key) + ": " + style)
		for line := range strings.SplitSeq(text, "\n") {
			w.text.WriteString(strings.TrimRight(w.indent+"  "+line, " ") + "\n")
		}
		return
	}
	w.line(scalar(key) + ": " + scalar(text))
}

var (
	plain = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_:./]*[A-Za-z0-9_/]$`)
	// What YAML 1.1 takes for a truth value or for nothing.
	special = regexp.MustCompile(`(?i)^(?:yes|no|on|off|true|false|null)$`)
)

func scalar(text string) string {
	if plain.MatchString(text) && !special.MatchString(text) {
		return text
	}
	return strconv.Quote(text)
}
