package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/common/model"

	"github.com/contend/contend/detect"
)

var reserved = []string{"alert", "alertname", "detector", "instance", "job", "severity"}

// CheckLabel says why a label's name is none that alerts can get.
func CheckLabel(name string) error {
	if !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__") {
		return fmt.Errorf("expected a label's name of letters, digits and _, saw %q", name)
	}
	if slices.Contains(reserved, name) {
		return fmt.Errorf("expected none of the labels that alerts have already (%s), saw %s", strings.Join(reserved, ", "), name)
	}
	return nil
}

// limitsOf says what may be set of an alert, with its values. "for" and its
// like stand beside the alert.
func limitsOf(s *detect.Signal) string {
	var out []string
	for _, l := range s.Limits() {
		out = append(out, fmt.Sprintf("%s=%s", l.Name, strconv.FormatFloat(l.Value, 'f', -1, 64)))
	}
	if len(out) == 0 {
		return ""
	}
	return "--set " + s.Alert + "." + strings.Join(out, ", ")
}
