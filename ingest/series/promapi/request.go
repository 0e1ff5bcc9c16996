package promapi

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
)

var (
	errTimeout  = errors.New("no whole answer in time")
	errTooLarge = errors.New("answer too large")
)

// request is one call of the API.
type request struct {
	path string // below /api/v1
	form url.Values
	what string // how errors call it
	list bool   // it takes no POST, and an empty list may be null
	data func(*jsontext.Decoder) error
}

// ask sends a request as soon as it may. A POST takes an expression of any
// length; where it is refused, the request is sent as a GET, as are all later
// ones. 403 is how Kubernetes' proxies refuse it to those that may read only.
func (a *API) ask(ctx context.Context, q request) error {
	select {
	case a.slots <- struct{}{}:
		defer func() { <-a.slots }()
	case <-ctx.Done():
		return fmt.Errorf("%s: interrupted: %w", a.name, context.Cause(ctx))
	}
	if q.list || a.getOnly.Load() {
		return a.send(ctx, http.MethodGet, q)
	}
	err := a.send(ctx, http.MethodPost, q)
	if !refusesMethod(err) {
		return err
	}
	if err = a.send(ctx, http.MethodGet, q); !refusesMethod(err) {
		a.getOnly.Store(true)
	}
	return err
}

func refusesMethod(err error) bool {
	switch statusOf(err) {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return true
	}
	return false
}

func (a *API) send(ctx context.Context, method string, q request) error {
	ctx, cancel := context.WithTimeoutCause(ctx, a.opt.Timeout, errTimeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:          func(httptrace.GotConnInfo) { connected.Store(true) },
		WroteHeaderField: a.sent.AddHeader,
	})
	u := a.base.JoinPath("api/v1", q.path)
	form := q.form.Encode()
	if strings.HasPrefix(q.path, "query") {
		form += "&timeout=" + strconv.FormatFloat(a.opt.Timeout.Seconds(), 'f', -1, 64)
	}
	var body io.Reader
	if method == http.MethodPost {
		body = strings.NewReader(form)
	} else {
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+form, "&")
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), body)
	if err != nil {
		return a.unreachable(nil, "expected a URL such as http://prometheus:9090, saw one that cannot be requested")
	}
	req.Header.Set("User-Agent", "contend")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		// Nothing is sent for it, but net/http then knows that a POST changes
		// nothing, and sends it again where a kept connection was closed.
		req.Header["Idempotency-Key"] = nil
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return a.noAnswer(ctx, q.what, connected.Load(), err)
	}
	defer resp.Body.Close()
	return a.read(ctx, q, resp)
}

// read reads an answer, whatever it is: proxies answer with pages and text.
func (a *API) read(ctx context.Context, q request, resp *http.Response) error {
	limited := &limitedReader{r: resp.Body, left: a.opt.MaxBytes}
	body := bufio.NewReaderSize(limited, 64<<10)
	head, err := body.Peek(maxLooked)
	head = bytes.TrimLeft(head, " \t\r\n")
	if !bytes.HasPrefix(head, []byte("{")) {
		if err != nil && !errors.Is(err, io.EOF) && resp.StatusCode == http.StatusOK {
			return a.badAnswer(ctx, q.what, limited, err)
		}
		html := bytes.HasPrefix(head, []byte("<")) || strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
		var ans answer
		if !html {
			line, _, _ := bytes.Cut(head, []byte("\n"))
			ans.said = string(line)
		}
		return a.refusal(q.what, resp, ans, html)
	}
	ans, err := decodeAnswer(body, q.data)
	switch {
	case err != nil && resp.StatusCode/100 == 2:
		return a.badAnswer(ctx, q.what, limited, err)
	case err != nil || ans.status != "success":
		return a.refusal(q.what, resp, ans, false)
	case !ans.data && !(q.list && ans.null):
		return a.badAnswer(ctx, q.what, limited, errNoData)
	}
	a.warn(ans.notes...)
	if ans.partial {
		a.warn("the server says that some of its answers are partial: a part of its storage cannot be reached")
	}
	return nil
}

// limitedReader fails with errTooLarge, where io.LimitReader ends.
type limitedReader struct {
	r       io.Reader
	n, left int64 // bytes
	err     error // what reading failed with
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left <= 0 {
		return 0, errTooLarge
	}
	n, err := l.r.Read(p[:min(int64(len(p)), l.left)])
	l.n += int64(n)
	l.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}
