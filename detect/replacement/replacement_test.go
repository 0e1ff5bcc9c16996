package replacement_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/replacement"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{replacement.Detector}, "testdata/stories.txt")
}
