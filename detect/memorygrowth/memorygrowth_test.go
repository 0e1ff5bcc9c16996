package memorygrowth_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/memorygrowth"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{memorygrowth.Detector}, "testdata/stories.txt")
}
