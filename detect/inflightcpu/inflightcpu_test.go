package inflightcpu_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/inflightcpu"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{inflightcpu.Detector}, "testdata/stories.txt")
}
