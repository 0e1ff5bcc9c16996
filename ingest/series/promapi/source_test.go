package promapi_test

import (
	"github.com/contend/contend/ingest/series"
	"github.com/contend/contend/ingest/series/promapi"
)

var _ series.Source = (*promapi.API)(nil)
