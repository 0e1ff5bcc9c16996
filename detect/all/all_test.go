package all_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/all"
)

func TestValidate(t *testing.T) {
	if len(all.Detectors()) == 0 {
		t.Fatal("no detectors")
	}
	if err := detect.Validate(all.Detectors()); err != nil {
		t.Error(err)
	}
}
