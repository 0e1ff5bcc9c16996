package memorygrowth_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/memorygrowth"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{memorygrowth.Detector}, "testdata/stories.txt")
}
