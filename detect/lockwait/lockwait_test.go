package lockwait_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/lockwait"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{lockwait.Detector}, "testdata/stories.txt")
}
