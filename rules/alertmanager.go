package rules

import (
	"slices"
	"strings"

	"github.com/contend/contend/detect"
)

// mainAlert is the page that says most: where requests pile up without CPU,
// health checks are slow because of it.
const mainAlert = "ContendInflightCPU"

// Alertmanager is what goes into Alertmanager's configuration so that one
// incident of a job is one page: the alerts of a job that page are one
// notification, and while it lasts what explains it sends none of its own, since
// it stands in the page's description.
func Alertmanager(g *Group, h Header) []byte {
	var others []string
	main := false
	for _, r := range g.Rules {
		if slices.Contains(r.Labels, Pair{"severity", detect.AlertPage}) {
			if r.Alert == mainAlert {
				main = true
			} else {
				others = append(others, r.Alert)
			}
		}
	}
	w := &writer{}
	w.comment("Written by " + h.Version + ":")
	w.comment("  " + h.Command)
	w.comment("Merge it into alertmanager.yml (0.22 or later), and name the receivers as yours are. Where one")
	w.comment("Alertmanager serves several clusters, add the label that tells them apart to group_by and equal.")
	w.text.WriteString(`route:
  routes:
    - matchers: ['alertname=~"Contend.+"', 'severity="page"']
      receiver: page
      group_by: [job]
      group_wait: 15s
      group_interval: 5m
      repeat_interval: 4h
    - matchers: ['alertname=~"Contend.+"']
      receiver: ticket
      group_by: [job]
      group_wait: 1m
      group_interval: 15m
      repeat_interval: 1d
inhibit_rules:
`)
	inhibit := func(why, source, target string) {
		w.line("  # " + why)
		w.line("  - source_matchers: [" + source + "]")
		w.line("    target_matchers: [" + target + "]")
		w.line("    equal: [job]")
	}
	if main && len(others) > 0 {
		inhibit("Health checks are slow because requests pile up.", `'alertname="`+mainAlert+`"'`, `'alertname=~"`+strings.Join(others, "|")+`"'`)
	}
	inhibit("What explains a page stands in its description.", `'alertname=~"Contend.+"', 'severity="page"'`, `'alertname=~"Contend.+"', 'severity!="page"'`)
	return []byte(w.text.String())
}
