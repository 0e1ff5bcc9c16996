package replacement_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/contendtest"
	"github.com/contend/contend/detect/replacement"
)

func TestStories(t *testing.T) {
	contendtest.Stories(t, []*detect.Detector{replacement.Detector}, "testdata/stories.txt")
}
