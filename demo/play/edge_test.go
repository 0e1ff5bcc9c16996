package play

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"
)

// roundTrip is one call to a handler at the edge.
func roundTrip(t *testing.T, ctx context.Context, h http.HandlerFunc) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1/api", nil)
	if err != nil {
		t.Fatal(err)
	}
	return toEdge{h}.RoundTrip(request)
}

func TestToEdge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		status  int
		body    string
	}{
		"nothing":           {func(http.ResponseWriter, *http.Request) {}, 200, ""},
		"body alone":        {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }, 200, "ok"},
		"status alone":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, 503, ""},
		"in parts":          {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a"); io.WriteString(w, "b") }, 200, "ab"},
		"the first counts":  {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) }, 404, ""},
		"after the body":    {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "a"); w.WriteHeader(500) }, 200, "a"},
		"an error's answer": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) }, 502, "no\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := roundTrip(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("X-Test", r.URL.Path)
				tt.handler(w, r)
			})
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(response.Body)
			if err != nil || response.StatusCode != tt.status || string(body) != tt.body || response.ContentLength != int64(len(body)) {
				t.Errorf("status %d, %q of %d bytes, %v; want %d, %q", response.StatusCode, body, response.ContentLength, err, tt.status, tt.body)
			}
			if got := response.Header.Get("X-Test"); got != "/api" {
				t.Errorf("header %q, want /api", got)
			}
		})
	}
}

func TestToEdgeWithoutAnswer(t *testing.T) {
	t.Parallel()
	late, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	for name, tt := range map[string]struct {
		ctx     context.Context
		handler http.HandlerFunc
		want    error // nil: any
	}{
		"cut off":       {t.Context(), func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil},
		"late":          {late, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(499) }, context.DeadlineExceeded},
		"late, cut off": {late, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			response, err := roundTrip(t, tt.ctx, tt.handler)
			if err == nil || response != nil || tt.want != nil && !errors.Is(err, tt.want) {
				t.Errorf("got %v, %v; want no answer and %v", response, err, tt.want)
			}
		})
	}
}

// A defect of a handler is not to look like a failed call.
func TestToEdgePanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if p := recover(); p != "a defect" {
			t.Errorf("recovered %v", p)
		}
	}()
	roundTrip(t, t.Context(), func(http.ResponseWriter, *http.Request) { panic("a defect") })
	t.Error("the panic was lost")
}
