package play

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// toEdge hands the clients' calls to the edge in this process. Connections
// between the two would take as much CPU as all the rest, which two cores do not
// have under the surge; what fails in the scenarios is behind the edge. An
// answer is there once the handler has returned, so no streams.
type toEdge struct{ edge http.Handler }

// RoundTrip returns the handler's answer, or an error where it gave none before
// the request's context ended.
func (t toEdge) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &answer{header: http.Header{}}
	cutOff := w.serve(t.edge, r)
	// First: a client whose time is over sees that, however the handler took it.
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	if cutOff != nil {
		return nil, cutOff
	}
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return &http.Response{
		StatusCode: w.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// answer is a response that is kept until it is whole.
type answer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

// serve calls the handler, which aborts by a panic as net/http has it.
func (w *answer) serve(h http.Handler, r *http.Request) (err error) {
	defer func() {
		if p := recover(); p == http.ErrAbortHandler {
			err = errors.New("the answer was cut off")
		} else if p != nil {
			panic(p)
		}
	}()
	h.ServeHTTP(w, r)
	return nil
}

func (w *answer) Header() http.Header { return w.header }

func (w *answer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

func (w *answer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	return w.body.Write(p)
}
