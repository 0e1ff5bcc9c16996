package healthcheck_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/healthcheck"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{healthcheck.Detector}, "testdata/stories.txt")
}
