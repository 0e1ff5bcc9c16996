package cpubound_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/cpubound"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{cpubound.Detector}, "testdata/stories.txt")
}
