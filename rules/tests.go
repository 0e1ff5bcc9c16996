package rules

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/ingest/series"
)

// stories are what alerts must do, written by hand: a title, canonical series
// in promtool's notation, a sample each 15 s, and at a few times the alerts that fire
// then, all of them. A story is of one job, which no other story has:
//
//	== a lock holds the requests
//	contend:inflight{job="locked",instance="a"} 4x200 4+10x40
//	at 55m locked ContendInflightCPU
//	at 2h none
//
//go:embed testdata/stories.txt
var stories string

const storyInterval = 15 * time.Second

// Tests are promtool unit tests of a group, whose file is named. They hold of
// the thresholds as they come: stories of alerts that settings change, and of
// alerts and signals that were left out, are left out too.
func Tests(g *Group, file string, timing series.Timing, settings []detect.Setting, h Header) ([]byte, error) {
	w := &writer{}
	w.comment("Written by " + h.Version + ":")
	w.comment("  " + h.Command)
	w.comment("promtool test rules FILE runs it. It begins at 1970, and knows canonical series alone: what")
	w.comment("is read from a service's own metrics is what contend rules check looks at.")
	w.line("rule_files: [" + scalar(file) + "]")
	w.line("evaluation_interval: " + duration(g.Interval))
	w.line("tests:")
	w.line("  - interval: " + scaled(storyInterval, timing))
	// A story has too few samples for rules that look twice as often: the alert that samples
	// are missing, which wants ten in twenty scrapes, is right to fire in all of them.
	blind := float64(g.Interval)*max(timing.Factor, 1)*2 <= float64(storyInterval)
	not := ""
	if blind {
		not = `,alertname!="` + MissingAlert + `"`
	}
	var kept []*story
	for part := range strings.SplitSeq("\n"+stories, "\n== ") {
		title, body, ok := strings.Cut(part, "\n")
		if !ok || strings.TrimSpace(title) == "" || title[0] == '#' {
			continue
		}
		s, err := readStory(title, body)
		if err != nil {
			return nil, err
		}
		if blind && slices.ContainsFunc(s.checks, func(c check) bool { return slices.Contains(c.want, MissingAlert) }) {
			continue
		}
		if g.tells(s, settings) {
			kept = append(kept, s)
		}
	}
	w.line("    input_series:")
	for _, s := range kept {
		w.comment(s.title)
		for _, one := range s.series {
			w.line("      - series: '" + g.Name + strings.TrimPrefix(one[0], usualName) + "'")
			// A target that is gone ends its series; else they would last as long as the look-back.
			w.line("        values: '" + one[1] + " stale'")
		}
	}
	w.line("    promql_expr_test:")
	for _, s := range kept {
		w.comment(s.title)
		for _, c := range s.checks {
			w.line(fmt.Sprintf("      - expr: count by (job, alertname) (ALERTS{alertname=~\"Contend.+\"%s,alertstate=\"firing\",job=%q})", not, s.job))
			w.line("        eval_time: " + scaled(c.at, timing))
			if len(c.want) > 0 {
				w.line("        exp_samples:")
			}
			for _, alert := range c.want {
				w.line(fmt.Sprintf("          - labels: '{job=%q,alertname=%q}'", s.job, alert))
				w.line("            value: 1")
			}
		}
	}
	return []byte(w.text.String()), nil
}

// scaled is a duration of a story at the clock of the series.
func scaled(d time.Duration, timing series.Timing) string {
	return duration(time.Duration(float64(d) / max(timing.Factor, 1)))
}

type story struct {
	title  string
	job    string
	series [][2]string // selector and values
	checks []check
}

type check struct {
	at   time.Duration
	want []string // alerts
}

func readStory(title, body string) (*story, error) {
	s := &story{title: title}
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		words := strings.Fields(line)
		switch {
		case line == "" || line[0] == '#':
		case words[0] == "at" && len(words) > 2:
			at, err := model.ParseDuration(words[1])
			if err != nil {
				return nil, fmt.Errorf("story %q: %w", title, err)
			}
			c := check{at: time.Duration(at)}
			if s.job == "" {
				return nil, fmt.Errorf("story %q: expected series with a job before %q", title, line)
			}
			switch words[2] {
			case "none":
			case s.job:
				c.want = words[3:]
			default:
				return nil, fmt.Errorf("story %q: expected none or alerts of job %s, saw %q", title, s.job, line)
			}
			s.checks = append(s.checks, c)
		case strings.HasPrefix(line, "contend:"):
			end := strings.Index(line, "}") + 1
			_, s.job, _ = strings.Cut(line[:end], `job="`)
			s.job, _, _ = strings.Cut(s.job, `"`)
			s.series = append(s.series, [2]string{line[:end], strings.TrimSpace(line[end:])})
		default:
			return nil, fmt.Errorf("story %q: expected canonical series or at TIME JOB ALERT…, saw %q", title, line)
		}
	}
	return s, nil
}

// tells reports whether a story holds of a group: one of signals that the group does
// not record goes otherwise, since what reads them is left out.
func (g *Group) tells(s *story, settings []detect.Setting) bool {
	for _, one := range s.series {
		metric, _, _ := strings.Cut(one[0], "{")
		name := g.Name + strings.TrimPrefix(metric, usualName)
		if !slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.Record == name }) {
			return false
		}
	}
	for _, c := range s.checks {
		for _, w := range c.want {
			has := slices.ContainsFunc(g.Rules, func(r Rule) bool { return r.Alert == w })
			if !has || slices.ContainsFunc(settings, func(s detect.Setting) bool { return s.Alert == w }) {
				return false
			}
		}
	}
	return true
}
