package promapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/contend/contend/ingest/secret"
)

// Unreachable is why a server answers no query at all: it cannot be reached,
// wants other credentials, or is no Prometheus API.
type Unreachable struct {
	text   string
	status int
	err    error
}

func (e *Unreachable) Error() string { return e.text }

// Unwrap is what package net or crypto/tls said, where that is the reason.
func (e *Unreachable) Unwrap() error { return e.err }

// QueryError is why one query has no answer. Others may have.
type QueryError struct {
	Status int    // of HTTP; 0 where there was no answer, or it was cut off or made no sense
	Type   string // errorType of the API, such as "bad_data" or "execution"; "" where it gave none

	text       string
	err        error
	transient  bool          // it may pass
	tooMuch    bool          // a smaller query may be answered
	retryAfter time.Duration // as the server asks; 0 where it did not
}

func (e *QueryError) Error() string { return e.text }

// Unwrap is the reason; context.DeadlineExceeded where Options.Timeout passed, or
// the server's own time limit.
func (e *QueryError) Unwrap() error { return e.err }

const (
	maxQuoted = 200     // bytes of what a server says that are shown: one or two lines of a screen
	maxLooked = 4 << 10 // bytes of it that are searched for secrets: one that is cut in two would not be known
	maxExpr   = 120     // bytes of an expression that are shown
	// maxRetryWait is how long a server may ask to wait. Longer is for the user
	// to decide.
	maxRetryWait = 10 * time.Second
)

const lessData = "try a shorter --since or a narrower --selector"

// quoteExpr is an expression on one line, and not all of a long one.
func quoteExpr(expr string) string {
	return "`" + clip(strings.Join(strings.Fields(expr), " "), maxExpr) + "`"
}

// quote is what a server said: one line of it, without secrets.
func (a *API) quote(said string) string {
	said = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(said, ""), func(r rune) bool { return r <= ' ' || r == 0x7f }), " ")
	return clip(a.sent.HideWords(secret.HideURLs(a.sent.Hide(said))), maxQuoted)
}

func (a *API) unreachable(err error, format string, args ...any) *Unreachable {
	return &Unreachable{text: a.name + ": " + fmt.Sprintf(format, args...), err: err}
}

func (a *API) queryError(what string, err error, format string, args ...any) *QueryError {
	return &QueryError{text: fmt.Sprintf("%s: %s: ", a.name, what) + fmt.Sprintf(format, args...), err: err}
}

// statusOf is the HTTP status that err is about, 0 for none.
func statusOf(err error) int {
	if e, ok := errors.AsType[*QueryError](err); ok {
		return e.Status
	}
	if e, ok := errors.AsType[*Unreachable](err); ok {
		return e.status
	}
	return 0
}

// retry is f, once more where its error may pass.
func (a *API) retry(ctx context.Context, f func() error) error {
	err := f()
	if err != nil && a.again(ctx, err, false) {
		err = f()
	}
	return err
}

// again waits and is true where a request is worth sending once more; smaller
// is whether it will be for less. What took too long is not asked for again as
// it is: that would only take as long.
func (a *API) again(ctx context.Context, err error, smaller bool) bool {
	e, ok := errors.AsType[*QueryError](err)
	if !ok || !e.transient && !((e.tooMuch || tookTooLong(err)) && smaller) || e.retryAfter > maxRetryWait {
		return false
	}
	wait := max(a.pause, e.retryAfter)
	a.opt.Progress(fmt.Sprintf("asking again in %v, since %v", wait, err))
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// tookTooLong is whether an error is for a time that passed, here or on the server.
func tookTooLong(err error) bool { return errors.Is(err, context.DeadlineExceeded) }

// refusal is why a server answered without data. ans.said is an error of the API,
// or text; html is whether the answer was a page for people.
func (a *API) refusal(what string, resp *http.Response, ans answer, html bool) error {
	code := resp.StatusCode
	saw := fmt.Sprintf("saw %d %s", code, http.StatusText(code))
	if ans.errType != "" {
		saw += ", " + a.quote(ans.errType)
	}
	said := a.quote(ans.said)
	if said != "" && !strings.EqualFold(said, http.StatusText(code)) {
		saw += " (" + said + ")"
	}
	ofAPI := ans.status == "error"
	unreachable := func(try string) error {
		e := a.unreachable(nil, "expected an answer, %s; %s", saw, try)
		e.status = code
		return e
	}
	switch {
	case code >= 300 && code < 400:
		try := "try that address"
		if to, err := resp.Location(); err == nil {
			path, _, _ := strings.Cut(to.Path, "/api/v1/")
			shown := (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: path}).String()
			if secret.SameHost(a.base, to) {
				saw += " to " + shown
			} else {
				saw += ", a redirect to another host, " + shown
				try = "give that address if you trust it"
			}
		}
		return unreachable(try + ", or where it is a login page, credentials with --http.config.file")
	case (code == http.StatusUnauthorized || code == http.StatusForbidden) && strings.Contains(strings.ToLower(said), "no org id"):
		return unreachable("give the tenant as X-Scope-OrgID under http_headers in --http.config.file")
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return unreachable("give credentials, or others, with --http.config.file")
	case strings.Contains(said, "HTTPS server"):
		return unreachable("try https:// in place of http://")
	case html && code < 300:
		saw += " with a page for people"
		return unreachable("if that is a login page, give credentials with --http.config.file; else " + tryPath)
	case !ofAPI && (code == http.StatusNotFound || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented):
		return unreachable("no Prometheus API is there; " + tryPath)
	case !ofAPI && code < 300:
		saw += ", which is no answer of a Prometheus API"
		return unreachable(tryPath)
	}

	e := &QueryError{Status: code, Type: a.quote(ans.errType), retryAfter: retryAfter(resp)}
	if ans.errType == "timeout" || code == http.StatusGatewayTimeout {
		e.err = context.DeadlineExceeded
	}
	e.transient = e.err == nil && (code == http.StatusTooManyRequests || code >= 500)
	// Prometheus: "too many samples", "exceeded maximum resolution"; Mimir and
	// VictoriaMetrics: "exceeds", "exceeding". All with different statuses.
	lower := strings.ToLower(ans.said)
	e.tooMuch = strings.Contains(lower, "too many") || strings.Contains(lower, "exceed")
	try := "see the server's log"
	switch {
	case e.tooMuch || e.err != nil:
		try = lessData
	case e.retryAfter > 0:
		try = fmt.Sprintf("it asks to wait %v", e.retryAfter)
	case code == http.StatusTooManyRequests:
		try = "it has had too many requests; wait, or " + lessData
	case code == http.StatusServiceUnavailable:
		try = "it may be starting, or overloaded; try later"
	case code < 500:
		try = "check the expression and --selector"
	}
	e.text = fmt.Sprintf("%s: %s: expected an answer, %s; %s", a.name, what, saw, try)
	return e
}

const tryPath = "check the address: some servers have the API below a path, such as /prometheus (Mimir, Cortex, or --web.route-prefix) or /select/0/prometheus (VictoriaMetrics' cluster)"

// retryAfter is what the header of that name asks for: seconds, or a time
// (RFC 9110, section 10.2.3).
func retryAfter(resp *http.Response) time.Duration {
	const longest = 24 * time.Hour // any longer is no less of a no
	text := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return time.Duration(min(max(n, 0), int64(longest/time.Second))) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil {
		return min(max(time.Until(t), 0), longest).Round(time.Second)
	}
	return 0
}

// noAnswer is why a request got none. The URL that net/http puts before its
// errors is dropped: it may hold credentials. connected tells a server that is
// slow from a host that cannot be reached.
func (a *API) noAnswer(ctx context.Context, what string, connected bool, err error) error {
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	said := a.quote(err.Error())
	cause := context.Cause(ctx)
	_, badCert := errors.AsType[*tls.CertificateVerificationError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	_, noHost := errors.AsType[*net.DNSError](err)
	op, isOp := errors.AsType[*net.OpError](err)
	slow := timedOut(ctx, err)
	hungUp := errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
	switch {
	case cause != nil && !errors.Is(cause, errTimeout):
		return fmt.Errorf("%s: interrupted: %w", a.name, cause)
	case errors.Is(err, syscall.ECONNREFUSED):
		return a.unreachable(err, "expected an answer, saw the connection refused: nothing listens there; check host and port, or forward the port")
	case noHost:
		return a.unreachable(err, "expected an answer, but the host has no address: %s; check its name", said)
	case badCert:
		return a.unreachable(err, "expected an answer, but the server's certificate is not trusted: %s; give its authority as tls_config in --http.config.file", said)
	case noTLS || strings.Contains(said, "HTTP response to HTTPS client"):
		return a.unreachable(err, "expected an answer, but the server does not speak TLS on this port; try http:// in place of https://")
	case isOp && op.Op == "remote error":
		return a.unreachable(err, "expected an answer, but the server refused TLS: %s; if it wants a client certificate, give one as tls_config in --http.config.file", said)
	case strings.Contains(said, "malformed HTTP response"):
		return a.unreachable(err, "expected an answer, but the server does not speak HTTP on this port; try https:// in place of http://, or check the port")
	case slow && !connected || isOp && op.Op == "dial":
		return a.unreachable(err, "expected an answer, but there is no connection: %s; check that the host can be reached from here", said)
	case slow:
		return a.queryError(what, context.DeadlineExceeded, "expected an answer within %v, saw none; the server may be overloaded: %s", a.opt.Timeout, lessData)
	case hungUp:
		e := a.queryError(what, err, "expected an answer, saw the connection closed without one; see the server's log")
		e.transient = true
		return e
	}
	return a.unreachable(err, "expected an answer, but the request failed: %s; check host, port and --http.config.file", said)
}

// timedOut is whether err is for a time that passed: this package's or the client's.
func timedOut(ctx context.Context, err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return errors.Is(context.Cause(ctx), errTimeout) || ok && ne.Timeout()
}

// badAnswer is why an answer that began well could not be read.
func (a *API) badAnswer(ctx context.Context, what string, body *limitedReader, err error) error {
	cause := context.Cause(ctx)
	switch {
	case cause != nil && !errors.Is(cause, errTimeout):
		return fmt.Errorf("%s: interrupted: %w", a.name, cause)
	case timedOut(ctx, err):
		return a.queryError(what, context.DeadlineExceeded, "expected a whole answer within %v, saw %d bytes of one; %s", a.opt.Timeout, body.n, lessData)
	// What exceeds a limit of contend is not asked for in smaller parts: their
	// sum would be as much, and the server has done the work once.
	case errors.Is(err, errTooLarge):
		return a.queryError(what, err, "expected an answer of at most %d bytes, saw more; %s", a.opt.MaxBytes, lessData)
	case errors.Is(err, errTooManySeries):
		return a.tooManySeries(what)
	case errors.Is(err, errTooManyNames):
		return a.queryError(what, err, "expected at most %d names, saw more; try a narrower --selector", maxNames)
	case errors.Is(err, errTooManySamples):
		return a.queryError(what, err, "expected at most %d samples, saw more; %s", a.opt.MaxSamples, lessData)
	case body.err != nil || errors.Is(err, io.ErrUnexpectedEOF):
		e := a.queryError(what, err, "expected a whole answer, saw it cut off after %d bytes; see the log of the server, or of a proxy before it", body.n)
		e.transient = true
		return e
	}
	return a.queryError(what, err, "expected an answer as the Prometheus API has it, saw another: %s", a.quote(err.Error()))
}

func (a *API) tooManySeries(what string) *QueryError {
	return a.queryError(what, errTooManySeries, "expected at most %d series, saw more; try a narrower --selector", a.opt.MaxSeries)
}
