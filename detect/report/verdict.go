package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/contend/contend/detect"
)

// answer is what a report comes to: a sentence, and how sure it is or what it rests on.
type answer struct {
	tone       style
	head, rest string
}

func answerOf(r *detect.Report) answer {
	v := &r.Verdict
	switch {
	case v.Cause != "":
		f := verdictFinding(r)
		return answer{severityStyle(f.Severity, bold), v.Summary, strings.Join(verdictWords(r, f), ", ") + unsure(v.Confidence, f.Warnings)}
	case couldNotLook(r):
		return answer{yellow, "could not look: " + tail(v.Summary, "could not look", noLook(r)), "This does not mean that the process is well."}
	case len(r.Findings) > 0:
		worst := slices.MinFunc(r.Findings, func(a, b detect.Finding) int {
			return slices.Index(detect.Severities, a.Severity) - slices.Index(detect.Severities, b.Severity)
		})
		tone := severityStyle(worst.Severity, green)
		if worst.Severity == detect.Info {
			tone = green
		}
		return answer{tone, cmp.Or(v.Summary, "nothing found that holds a material share; what is below is worth knowing"), lookedAt(r)}
	}
	return answer{green, "nothing found: " + tail(v.Summary, "nothing found", "nothing holds the requests"), lookedAt(r)}
}

// verdictWords are what is known of a verdict beside its summary; f is its finding.
func verdictWords(r *detect.Report, f *detect.Finding) []string {
	v := &r.Verdict
	words := []string{v.Cause}
	if f.Severity != "" {
		words = append(words, string(f.Severity))
	}
	if v.Confidence != "" {
		words = append(words, string(v.Confidence)+" confidence")
	}
	if v.Trigger != "" {
		words = append(words, "set off by "+v.Trigger)
	}
	if a := v.Instances; a != nil {
		one, many := "process", "processes"
		if f.Alert != "" || f.Job != "" {
			one, many = "instance", "instances"
		}
		words = append(words, fmt.Sprintf("%d of %s", a.Affected, count(int64(a.Total), one, many)))
	}
	if v.Job != "" {
		words = append(words, "job "+v.Job)
	}
	return append(words, duration(f)...)
}

// unsure says in few words why a verdict is not surer: the first clause of its
// finding's first warning. The whole warning stands with the finding.
func unsure(c detect.Confidence, warnings []string) string {
	if c != detect.Low && c != detect.Medium || len(warnings) == 0 {
		return ""
	}
	why := warnings[0]
	if i := strings.Index(why, "; "); i > 0 {
		why = why[:i]
	}
	if i := strings.Index(why, ": "); i > 0 {
		why = why[:i]
	}
	return ": " + why
}

// verdictFinding is the finding the verdict was taken from; where there is no
// verdict, the first; where there are no findings, an empty one.
func verdictFinding(r *detect.Report) *detect.Finding {
	for i := range r.Findings {
		if r.Findings[i].Detector == r.Verdict.Cause {
			return &r.Findings[i]
		}
	}
	if len(r.Findings) > 0 {
		return &r.Findings[0]
	}
	return &detect.Finding{}
}

// couldNotLook reports whether no detector came to a result, so that a
// report without findings means nothing.
func couldNotLook(r *detect.Report) bool {
	return len(r.Findings) == 0 && len(r.RuledOut) == 0
}

// countFailed is how many inputs could not be read.
func countFailed(list []detect.Input) int {
	n := 0
	for _, in := range list {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// noLook says why nothing was looked at.
func noLook(r *detect.Report) string {
	failed := countFailed(r.Inputs)
	switch {
	case len(r.Inputs) == 0:
		return "there was no input"
	case failed == len(r.Inputs):
		return "no input could be read"
	}
	return "no detector can work from what was read"
}

// tail is a summary without a heading it may already begin with. Where it is
// empty or claims another outcome, it is fallback.
func tail(summary, heading, fallback string) string {
	rest, ok := strings.CutPrefix(summary, heading)
	if ok {
		return cmp.Or(strings.TrimLeft(rest, ":;,. "), fallback)
	}
	if strings.HasPrefix(summary, "nothing found") || strings.HasPrefix(summary, "could not look") {
		return fallback
	}
	return cmp.Or(summary, fallback)
}

// lookedAt sums up, with numbers, what stands behind a report without a verdict.
func lookedAt(r *detect.Report) string {
	var lost int64
	largest := map[string]int64{} // of the snapshots of a process, which show the same goroutines
	inputs, failed := 0, 0
	for _, in := range r.Inputs {
		if in.Error != "" {
			failed++
			continue
		}
		inputs++
		if in.Goroutines != nil {
			largest[in.Process] = max(largest[in.Process], in.Goroutines.Read)
			lost += in.Goroutines.Lost
		}
	}
	read := int64(0)
	for _, n := range largest {
		read += n
	}
	text := "looked at " + count(int64(inputs), "input", "inputs")
	if read > 0 {
		text = fmt.Sprintf("looked at %s in %s", count(read, "goroutine", "goroutines"), count(int64(inputs), "input", "inputs"))
	}
	if lost > 0 {
		text += fmt.Sprintf(", %s lost", whole(lost))
	}
	if failed > 0 {
		text += fmt.Sprintf("; %s could not be read", count(int64(failed), "input", "inputs"))
	}
	looked, blind := map[string]bool{}, map[string]bool{}
	for _, n := range r.RuledOut {
		looked[n.Detector] = true
	}
	for _, n := range r.Skipped {
		blind[n.Detector] = true
	}
	text += fmt.Sprintf("; %s ruled out", count(int64(len(looked)), "cause", "causes"))
	if len(blind) > 0 {
		text += fmt.Sprintf("; %s could not look", count(int64(len(blind)), "detector", "detectors"))
	}
	return text
}

// Three steps are what a person keeps in mind, and one more for what is
// critical beside them; the JSON has them all.
const (
	maxSteps = 4
	ownSteps = 3
)

// steps are what to do: of the verdict's finding, then first of all about what
// else is critical.
func steps(r *detect.Report) []string {
	lead := verdictFinding(r)
	list := slices.Clone(lead.Next[:min(len(lead.Next), ownSteps)])
	told := map[string]bool{lead.Detector: true}
	for i := range r.Findings {
		f := &r.Findings[i]
		if len(list) == maxSteps || f.Severity != detect.Critical || told[f.Detector] || len(f.Next) == 0 {
			continue
		}
		told[f.Detector] = true
		list = append(list, f.Detector+": "+f.Next[0])
	}
	return list
}
