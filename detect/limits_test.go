package detect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
)

func TestLimits(t *testing.T) {
	t.Parallel()
	s := detect.Signal{Expr: "contend:cpu > {{share=0.9}} and contend:cpu < {{most=2}} * {{s:4x,1m}} or contend:cpu > {{share=0.9}}"}
	if got := fmt.Sprint(s.Limits()); got != "[{share 0.9} {most 2}]" {
		t.Errorf("limits are %s", got)
	}
	const want = "contend:cpu > {{share=0.5}} and contend:cpu < {{most=2}} * {{s:4x,1m}} or contend:cpu > {{share=0.5}}"
	if got := s.WithLimit("share", 0.5); got.Expr != want || s.Expr == want {
		t.Errorf("got %s", got.Expr)
	}
}

// TestLimitsAgree: a limit has one value, wherever it stands.
func TestLimitsAgree(t *testing.T) {
	t.Parallel()
	found := 0
	for _, d := range all.Detectors() {
		for i, s := range d.Signals {
			limits := s.Limits()
			found += len(limits)
			if len(limits) == 0 || limits[0].Value == 0 {
				continue
			}
			broken := *d
			broken.Signals = append([]detect.Signal{}, d.Signals...)
			broken.Signals[i].Expr += fmt.Sprintf(" or contend:up > {{%s=%g}}", limits[0].Name, limits[0].Value+1)
			err := detect.Validate([]*detect.Detector{&broken})
			if err == nil || !strings.Contains(err.Error(), "expected one value of "+limits[0].Name) {
				t.Errorf("%s: got %v", s.Alert, err)
			}
		}
	}
	if found == 0 {
		t.Error("no alert has a limit")
	}
}
