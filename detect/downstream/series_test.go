package downstream_test

import (
	"testing"

	"github.com/contend/contend/detect"
	"github.com/contend/contend/detect/cases"
	"github.com/contend/contend/detect/downstream"
)

func TestStories(t *testing.T) {
	cases.Stories(t, []*detect.Detector{downstream.Detector}, "testdata/stories.txt")
}
