package inflightcpu_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/inflightcpu"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{inflightcpu.Detector}, "testdata/stories.txt")
}
