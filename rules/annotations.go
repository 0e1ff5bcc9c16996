package rules

import (
	"fmt"
	"strings"

	"github.com/contend/contend/detect"
)

// Of labels in a command that somebody copies into a shell, what could end its
// quotes is taken out.
const (
	plainJob      = `{{ reReplaceAll "['\"\\\\]" "" $labels.job }}`
	plainInstance = `{{ reReplaceAll "[^A-Za-z0-9_.:\\[\\]-]" "" .Labels.instance }}`
)

// annotations tell who is woken what holds, where, and what to type. Their
// templates ask the server for the instances: an alert of a job has but their
// number.
func (g *generator) annotations(d *detect.Detector, s *detect.Signal, others []lookAlike) []Pair {
	held := fmt.Sprintf(`printf "%%s{alert=\"%s\",job=%%q}" "%s" $labels.job`, s.Alert, Holds)
	worst := func(n int) string { return fmt.Sprintf(`query (printf "topk(%d, %%s)" (%s))`, n, held) }
	text := `{{ $value }}{{ with query (printf "count(contend:up{job=%q})" $labels.job) }} of {{ first . | value }}{{ end }} instances` +
		`{{ range $i, $_ := ` + worst(3) + ` }}{{ if $i }},{{ else }}:{{ end }} {{ .Labels.instance }} {{ humanize .Value }}{{ end }}` +
		" (" + s.Value + ")."
	text += excluded(others)
	if s.Page {
		// Conditions and not alerts: a cause may wait for its time yet, and the first notification is the one that is read.
		text += fmt.Sprintf(`{{ with query (printf "count by (alert) (%s{alert!=\"%s\",job=%%q})" $labels.job) }} Beside it:{{ range . }} {{ .Labels.alert }}{{ end }}.{{ end }}`, Holds, s.Alert)
	}
	if s.Page && strings.Contains(s.Expr, ":baseline") {
		text += " " + forgets
	}
	return []Pair{
		{"summary", "{{ $labels.job }}: " + s.Title},
		{"description", text},
		{"find", g.analyze() + `{{ range ` + worst(1) + ` }} http://` + plainInstance + `{{ end }}`},
		{"runbook_url", detect.Page(d.Name)},
	}
}

// forgets is what who is woken must know of a median of an hour, six minutes
// back: half of it is the incident after 36.
const forgets = "It compares with the last hour: what lasts for over half an hour becomes its own past, and this ends though that does not."

// excluded is what a description says of look-alikes: which the job's series
// exclude, and for which it has none.
func excluded(others []lookAlike) string {
	if len(others) == 0 {
		return ""
	}
	// add appends to a list that begins with a colon.
	add := func(list, name string) string {
		return fmt.Sprintf(`{{ %[1]s = printf "%%s%%s %[2]s" %[1]s (or (and %[1]s ";") ":") }}`, list, name)
	}
	text := `{{ $not := "" }}{{ $unseen := "" }}`
	for _, o := range others {
		name, _, _ := strings.Cut(o.name, ":") // after which comes why
		if len(o.reads) == 0 {
			text += add("$unseen", name)
			continue
		}
		var there []string
		for _, metric := range o.reads {
			there = append(there, "count("+metric+"{job=%[1]q})")
		}
		text += `{{ with query (printf "` + strings.Join(there, " and ") + `" $labels.job) }}` + add("$not", name) + `{{ else }}` + add("$unseen", name) + `{{ end }}`
	}
	return text + `{{ with $not }} Excluded{{ . }}.{{ end }}{{ with $unseen }} Not looked at, for want of metrics{{ . }}.{{ end }}`
}

// analyze is the command that looks at the job's series.
func (g *generator) analyze() string {
	server := g.opt.Server
	if server == "" {
		server = "{{ $externalURL }}"
	}
	selector := g.opt.Selector
	if strings.Contains(selector, "'") || strings.Contains(selector, "{{") { // neither is for a shell's quotes in a template
		selector = ""
	}
	if selector != "" {
		selector += ","
	}
	return "contend analyze --prometheus " + server + ` --selector '` + selector + `job="` + plainJob + `"'`
}

func (g *generator) missingAnnotations() []Pair {
	return []Pair{
		{"summary", "{{ $labels.job }}: contend cannot look: its requests in flight or its CPU are not known"},
		{"description", "{{ $value }} instances are scraped, and none has both contend:inflight and contend:cpu, which the alerts are made of, most of the time: that they are silent says nothing. Something is not exported any more, or not yet, or is scraped more seldom than the rules were made for (contend rules generate --interval)."},
		{"find", strings.Replace(g.analyze(), "contend analyze", "contend rules check", 1)},
		{"runbook_url", detect.Page("inflightcpu")},
	}
}
