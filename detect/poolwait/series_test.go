package poolwait_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/poolwait"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{poolwait.Detector}, "testdata/stories.txt")
}
