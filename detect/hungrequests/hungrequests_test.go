package hungrequests_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/hungrequests"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{hungrequests.Detector}, "testdata/stories.txt")
}
