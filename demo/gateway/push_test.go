package gateway

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// pushed is one upload of pyroscope-go, in the parts that a server goes by.
type pushed struct {
	query  url.Values
	types  string // of the profile's samples
	config string
}

// A task pushes its goroutine, block and mutex profiles, named and labelled so
// that a server tells the tasks apart.
func TestTaskPushes(t *testing.T) {
	t.Parallel()
	uploads := make(chan pushed, 100) // some seconds of them, so that the task never waits
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		one := pushed{query: r.URL.Query()}
		read := func(part string) []byte {
			f, _, err := r.FormFile(part)
			if err != nil {
				t.Errorf("%s %s: part %s: %v", r.Method, r.URL.Path, part, err)
				return nil
			}
			defer f.Close()
			data, err := io.ReadAll(f)
			if err != nil {
				t.Errorf("read %s: %v", part, err)
			}
			return data
		}
		if r.Method != http.MethodPost || r.URL.Path != "/ingest" {
			t.Errorf("saw %s %s, want POST /ingest", r.Method, r.URL.Path)
		}
		one.config = string(read("sample_type_config"))
		p, err := profile.ParseData(read("profile"))
		if err != nil {
			t.Errorf("profile: %v", err)
			return
		}
		for _, st := range p.SampleType {
			one.types += " " + st.Type
		}
		select {
		case uploads <- one:
		default:
		}
	}))
	defer server.Close()
	startProcess(t, `{"Name":"gateway-7","Pyroscope":"`+server.URL+`"}`)

	kinds := map[string]string{} // by what its samples are called
	for len(kinds) < 3 {
		select {
		case one := <-uploads:
			name := one.query.Get("name")
			if service, labels, _ := strings.Cut(name, "{"); service != "gateway" || !slices.Contains(strings.Split(strings.TrimSuffix(labels, "}"), ","), "instance=gateway-7") {
				t.Fatalf("name %q, want gateway with the label instance=gateway-7", name)
			}
			for _, display := range []string{"goroutine", "block_duration", "mutex_duration"} {
				if strings.Contains(one.config, `"`+display+`"`) {
					kinds[display] = one.types
				}
			}
		case <-t.Context().Done():
			t.Fatalf("only %v were pushed", kinds)
		}
	}
	for display, want := range map[string]string{"goroutine": " goroutine", "block_duration": " contentions delay", "mutex_duration": " contentions delay"} {
		if kinds[display] != want {
			t.Errorf("%s has samples of%q, want%q", display, kinds[display], want)
		}
	}
}
