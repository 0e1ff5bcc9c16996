package ingest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/contend/contend/ingest/secret"
)

const (
	pprofPath = "/debug/pprof"
	// A process in trouble answers late, but one that has not begun to answer
	// by then will hardly do so before its caller's patience ends.
	headerTimeout = 10 * time.Second
	// On top of the seconds a profile samples for.
	fetchTimeout = 30 * time.Second
	// Writing every goroutine as text stops the process: 347 ms measured at
	// 17,000. The protobuf does not, so it is asked first how many there are.
	maxTextGoroutines = 10_000
)

var errTimeout = errors.New("no whole answer in time")

func timedOut(cause error) bool {
	return errors.Is(cause, errTimeout) || errors.Is(cause, context.DeadlineExceeded)
}

// loadURL reads a profile, or what a host's root or /debug/pprof stands for:
// its goroutines twice, and its block and mutex profiles between.
func (l *loader) loadURL(ctx context.Context, raw string) *Bundle {
	b := &Bundle{}
	u, base, err := hostBase(raw)
	if err != nil {
		b.fail(DisplayName(raw), err)
		return b
	}
	if base != nil {
		l.loadHost(ctx, b, u, base)
		return b
	}
	name := secret.HideInURL(u)
	if kind := uselessEndpoint(u.Path); kind != "" {
		b.fail(name, wrongKind(kind))
		return b
	}
	l.progress("fetching " + name)
	r, err := l.fetch(ctx, u, name, querySeconds(u))
	if err != nil {
		b.fail(name, err)
	}
	up := *u
	up.Path, up.RawPath = path.Dir(u.Path), ""
	b.addReading(r, urlOrigin(&up))
	return b
}

// uselessEndpoint recognises the other profiles of net/http/pprof before they
// are taken: a CPU profile alone would take 30 seconds.
func uselessEndpoint(p string) string {
	if !strings.HasSuffix(path.Dir(p), pprofPath) {
		return ""
	}
	switch kind := path.Base(p); kind {
	case "profile":
		return "cpu"
	case "trace", "heap", "allocs", "threadcreate":
		return kind
	}
	return ""
}

// urlOrigin is what inputs of one process' pprof handler have in common.
func urlOrigin(base *url.URL) string {
	o := *base
	o.RawQuery = ""
	return strings.TrimSuffix(strings.TrimSuffix(secret.HideInURL(&o), "/"), pprofPath)
}

// querySeconds is how long the server was asked to sample for.
func querySeconds(u *url.URL) time.Duration {
	n, err := strconv.ParseFloat(u.Query().Get("seconds"), 64)
	if err != nil || !(n > 0 && n < 3600) {
		return 0
	}
	return time.Duration(n * float64(time.Second))
}

// endpoint is a profile below base, whose own query is kept.
func endpoint(base *url.URL, profile, query string) *url.URL {
	u := base.JoinPath(profile)
	if u.RawQuery != "" && query != "" {
		query = u.RawQuery + "&" + query
	} else if query == "" {
		query = u.RawQuery
	}
	u.RawQuery = query
	return u
}

// withoutParameters drops parameters from a query and leaves the rest as it is.
func withoutParameters(query string, names ...string) string {
	pairs := slices.DeleteFunc(strings.Split(query, "&"), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return slices.Contains(names, name)
	})
	return strings.Join(pairs, "&")
}

// loadHost takes everything useful off one process. Without its goroutines
// the rest is not waited for, and there is one Failure and not four.
func (l *loader) loadHost(ctx context.Context, b *Bundle, arg, base *url.URL) {
	ctx, cancel := context.WithTimeout(ctx, l.window+l.fetchTimeout)
	defer cancel()
	origin := urlOrigin(base)
	start := time.Now()
	l.progress(fmt.Sprintf("fetching goroutines of %s, and block and mutex profiles over %v", origin, l.window))

	windows := l.loadWindows(ctx, base, origin)
	goroutine := endpoint(base, "goroutine", "")
	first, err := l.fetch(ctx, goroutine, secret.HideInURL(goroutine), 0)
	if err != nil {
		cancel()
		windows()
		b.fail(secret.HideInURL(arg), err)
		b.addReading(first, origin)
		return
	}
	b.addReading(first, origin)
	for _, part := range windows() {
		b.Add(&part)
	}
	if err := sleep(ctx, time.Until(start.Add(l.window))); err != nil {
		return
	}
	later := secret.HideInURL(goroutine) + l.later()
	second, err := l.fetch(ctx, goroutine, later, 0)
	if b.addLesser(later, second, err, origin); err != nil {
		return
	}

	text := endpoint(base, "goroutine", "debug=2")
	name := secret.HideInURL(text)
	var total int64
	for _, s := range second.snapshots {
		total = max(total, s.Loss.Read)
	}
	if total >= maxTextGoroutines {
		b.pass(name, fmt.Sprintf("not taken: it would stop the process for long to write %d goroutines as text, so lock addresses are not known", total))
		return
	}
	dump, err := l.fetch(ctx, text, name, 0)
	b.addLesser(name, dump, err, origin)
}

// loadWindows takes the block and mutex profiles over the window; what it returns
// waits for them.
func (l *loader) loadWindows(ctx context.Context, base *url.URL, origin string) (wait func() []Bundle) {
	kinds := [...]string{"block", "mutex"}
	parts := make([]Bundle, len(kinds))
	var wg sync.WaitGroup
	for i, kind := range kinds {
		wg.Go(func() { l.loadWindow(ctx, &parts[i], base, kind, origin) })
	}
	return func() []Bundle {
		wg.Wait()
		return parts
	}
}

// addLesser adds what the analysis can do without: where it was not taken at
// all, that is no failure of the argument.
func (b *Bundle) addLesser(name string, r *reading, err error, origin string) {
	switch {
	case err == nil:
	case r.some():
		b.fail(name, err)
	default:
		b.pass(name, "could not be taken: "+err.Error())
	}
	b.addReading(r, origin)
}

// later tells a profile from an earlier one of the same URL.
func (l *loader) later() string { return fmt.Sprintf(", %v later", l.window) }

// loadWindow takes a block or mutex profile over the window. A server whose
// write timeout is shorter refuses that (net/http/pprof answers 400), and
// then two cumulative ones serve as well.
func (l *loader) loadWindow(ctx context.Context, b *Bundle, base *url.URL, kind, origin string) {
	seconds := int(max(1, (l.window+time.Second-1)/time.Second))
	u := endpoint(base, kind, "seconds="+strconv.Itoa(seconds))
	name := secret.HideInURL(u)
	r, err := l.fetch(ctx, u, name, l.window)
	if statusOf(err) == http.StatusBadRequest {
		u = endpoint(base, kind, "")
		name = secret.HideInURL(u)
		r, err = l.fetch(ctx, u, name, 0)
		if err == nil {
			b.addReading(r, origin)
			if err = sleep(ctx, l.window); err == nil {
				name += l.later()
				r, err = l.fetch(ctx, u, name, 0)
			}
		}
	}
	switch {
	case statusOf(err) == http.StatusNotFound:
		b.pass(name, "the service does not serve it (404)")
	case err != nil:
		b.fail(name, err)
	}
	b.addReading(r, origin)
}

// sleep waits, or returns the context's error.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fetch reads the profile at u. sampling is how long the server takes for it
// by its nature. name, and every error, is free of credentials.
func (l *loader) fetch(ctx context.Context, u *url.URL, name string, sampling time.Duration) (r *reading, err error) {
	sent := &secret.Sent{}
	sent.AddURL(u)
	defer func() {
		err = hideError(sent, err)
		for _, s := range r.snapshots {
			for i, w := range s.Warnings {
				s.Warnings[i] = hide(sent, w)
			}
		}
	}()
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, sampling+l.fetchTimeout, errTimeout)
	defer cancel()
	ctx, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	patience := time.AfterFunc(sampling+l.headerTimeout, func() { giveUp(errTimeout) })
	defer patience.Stop()

	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaderField: sent.AddHeader})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return &reading{}, errors.New("expected a URL such as http://HOST:PORT, saw one that cannot be requested")
	}
	req.Header.Set("User-Agent", "contend")
	resp, err := l.http.Do(req)
	if err != nil {
		return &reading{}, requestError(ctx, u, wanted(u), "", err)
	}
	defer resp.Body.Close()
	patience.Stop()
	now := time.Now().UTC()
	if resp.StatusCode != http.StatusOK {
		return &reading{}, newStatusError(resp, u, wanted(u), "", sent)
	}
	body := &countingReader{r: resp.Body}
	r, err = l.read(name, body)
	for _, s := range r.snapshots {
		if s.Taken.IsZero() { // text does not say, but here it is known
			s.Taken = now
		}
	}
	if _, ok := errors.AsType[*notProfile](err); ok && movedFrom(resp, u) {
		err = fmt.Errorf("redirected to %s: %w", secret.HideInURL(resp.Request.URL), err)
	} else if err != nil && timedOut(context.Cause(ctx)) {
		err = slowAnswer(body.n, time.Since(start), r.some())
	}
	return r, err
}

// metrics is what errors call what Prometheus scrapes.
const metrics = "metrics"

// wanted is what an address is asked for, as errors call it.
func wanted(u *url.URL) string {
	switch kind := path.Base(u.Path); kind {
	case "goroutine", "block", "mutex":
		return "a " + kind + " profile"
	case metrics:
		return metrics
	}
	return "a profile"
}

// slowAnswer is the error for an answer that began and did not end in time.
func slowAnswer(n int64, after time.Duration, kept bool) error {
	rest := ""
	if kept {
		rest = "; what came before that was read"
	}
	return fmt.Errorf("expected a whole answer, saw one that was still arriving: %s in %.0f s%s; take it with curl -o FILE and give the file, or try a smaller profile", bytesText(n), after.Seconds(), rest)
}

// countingReader counts the bytes that were read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func movedFrom(resp *http.Response, u *url.URL) bool {
	at := resp.Request.URL
	return at.Host != u.Host || at.Path != u.Path
}

// statusError is an answer other than 200.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }

// statusOf is the status of the answer that err is about, 0 where there was none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*statusError](err); ok {
		return e.code
	}
	return 0
}

// sendQuit is the last resort, which costs the process.
const sendQuit = "send it SIGQUIT, which ends it, and give its output"

// newStatusError is for an answer other than 200 from u, or from where that
// redirects to, where want was expected. other is Request.Try.
func newStatusError(resp *http.Response, u *url.URL, want, other string, sent *secret.Sent) error {
	code := resp.StatusCode
	saw := fmt.Sprintf("expected %s, saw %d %s", want, code, http.StatusText(code))
	said := firstLine(resp, sent)
	if said != "" {
		saw += " (" + said + ")"
	}
	try := cmp.Or(other, "see the service's log, or "+sendQuit)
	switch {
	case strings.Contains(said, "no org id"): // Mimir, Loki, Tempo and Pyroscope, with 401
		try = "give the tenant as X-Scope-OrgID under http_headers in --http.config.file"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		try = "give credentials with --http.config.file"
	case code == http.StatusNotFound && want == metrics:
		try = "check host, port and path"
	case code == http.StatusNotFound && other == "":
		try = `check host, port and path, and that the service has import _ "net/http/pprof"`
	case strings.Contains(said, "HTTPS server"):
		try = "https:// in place of http://"
	case code >= 300 && code < 400:
		try = "the address it redirects to, or follow_redirects in --http.config.file"
		if to, err := resp.Location(); err == nil && secret.SameHost(u, to) {
			saw += " to " + secret.HideInURL(to)
		} else if err == nil {
			saw += ", a redirect to another host, " + secret.HideInURL(to)
			try = "that address if you trust it with the credentials, or other ones where it is a login page"
		}
	}
	return &statusError{code, saw + "; try: " + try}
}

// firstLine is how a server explains its status in plain text or in the message
// of a JSON object (https://connectrpc.com/docs/protocol#error-end-stream), ""
// where it sends HTML or the like. sent is not shown again.
func firstLine(resp *http.Response, sent *secret.Sent) string {
	kind := resp.Header.Get("Content-Type")
	isJSON := strings.HasPrefix(kind, "application/json")
	if kind != "" && !isJSON && !strings.HasPrefix(kind, "text/plain") {
		return ""
	}
	const (
		longest = 200 // bytes; one screen line or two
		// Secrets are taken out of more than is shown: one that is cut in two
		// would not be known.
		looked = 64 << 10
	)
	body := io.LimitReader(resp.Body, looked)
	var line string
	if isJSON {
		var said struct{ Message string }
		_ = json.NewDecoder(body).Decode(&said) // another JSON says nothing
		line, _, _ = strings.Cut(said.Message, "\n")
	} else {
		line, _ = bufio.NewReader(body).ReadString('\n')
	}
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(line, ""))
	if strings.EqualFold(line, http.StatusText(resp.StatusCode)) {
		return ""
	}
	line = hideQuote(sent, line)
	return strings.ToValidUTF8(line[:min(len(line), longest)], "")
}

// requestError says why there was no answer from u, where want was expected. The
// URL that net/http puts before its errors is dropped: it may hold credentials.
// other is Request.Try.
func requestError(ctx context.Context, u *url.URL, want, other string, err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	cause := context.Cause(ctx)
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, noHost := errors.AsType[*net.DNSError](err)
	ne, isNet := errors.AsType[net.Error](err)
	hungUp := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case timedOut(cause):
		return fmt.Errorf("expected %s, saw no answer in time; %s", want, cmp.Or(other, "the process may be too busy to answer: try again, or "+sendQuit))
	case cause != nil:
		return fmt.Errorf("interrupted: %w", cause)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("expected %s, saw the connection refused: nothing listens there; check host and port, or forward the port", want)
	case noHost:
		return fmt.Errorf("expected %s, but the host has no address: %s; check its name", want, secret.Scrub(err.Error()))
	case badCert:
		return fmt.Errorf("expected %s, but the server's certificate is not trusted: %s; give its authority as tls_config in --http.config.file", want, secret.Scrub(err.Error()))
	case noTLS || strings.Contains(err.Error(), "HTTP response to HTTPS client"):
		return fmt.Errorf("expected %s, but the server does not speak TLS on this port; try http:// in place of https://", want)
	case u.Scheme == "http" && (hungUp || strings.Contains(err.Error(), tlsAlert)):
		return fmt.Errorf("expected %s, saw the connection closed without an answer to HTTP; if the port speaks TLS, try https:// in place of http://, else see the service's log", want)
	case isNet && ne.Timeout():
		return fmt.Errorf("expected %s, saw no answer in time; check that the host can be reached from here", want)
	}
	return fmt.Errorf("expected %s, but the request failed: %s; check host, port and --http.config.file", want, secret.Scrub(err.Error()))
}

// tlsAlert is how net/http quotes an answer that is an alert of TLS (content
// type 21, version 3.x: RFC 8446, section 5.1).
const tlsAlert = `malformed HTTP response "\x15\x03`
