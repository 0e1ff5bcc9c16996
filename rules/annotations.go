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
func (g *generator) annotations(d *detect.Detector, s *detect.Signal, excluded []string) []Pair {
	held := fmt.Sprintf(`printf "%%s{alert=\"%s\",job=%%q}" "%s" $labels.job`, s.Alert, Holds)
	worst := func(n int) string { return fmt.Sprintf(`query (printf "topk(%d, %%s)" (%s))`, n, held) }
	text := `{{ $value }}{{ with query (printf "count(contend:up{job=%q})" $labels.job) }} of {{ first . | value }}{{ end }} instances` +
		`{{ range $i, $_ := ` + worst(3) + ` }}{{ if $i }},{{ else }}:{{ end }} {{ .Labels.instance }} {{ humanize .Value }}{{ end }}` +
		" (" + s.Value + ")."
	if len(excluded) > 0 {
		text += " It is not " + strings.Join(excluded, ", nor ") + "."
	}
	if s.Page {
		text += fmt.Sprintf(`{{ with query (printf "count by (alertname) (ALERTS{alertname=~\"Contend.+\",alertname!=\"%s\",alertstate=\"firing\",job=%%q})" $labels.job) }} Beside it:{{ range . }} {{ .Labels.alertname }}{{ end }}.{{ end }}`, s.Alert)
	}
	return []Pair{
		{"summary", "{{ $labels.job }}: " + s.Title},
		{"description", text},
		{"find", g.analyze() + `{{ range ` + worst(1) + ` }} http://` + plainInstance + `{{ end }}`},
		{"runbook_url", detect.Page(d.Name)},
	}
}

// analyze is the command that looks at the job's series.
func (g *generator) analyze() string {
	server := g.opt.Server
	if server == "" {
		server = "{{ $externalURL }}"
	}
	return "contend analyze --prometheus " + server + ` --selector 'job="` + plainJob + `"'`
}

func (g *generator) missingAnnotations() []Pair {
	return []Pair{
		{"summary", "{{ $labels.job }}: contend cannot look: its requests in flight or its CPU are not known"},
		{"description", "{{ $value }} instances are scraped, and none has both contend:inflight and contend:cpu, which the alerts are made of: that they are silent says nothing. Something is not exported any more, or not yet."},
		{"find", strings.Replace(g.analyze(), "contend analyze", "contend rules check", 1)},
		{"runbook_url", detect.Page("inflightcpu")},
	}
}
