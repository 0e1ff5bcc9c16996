package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const (
	// Loopback is where a task listens: free ports that only this machine reaches,
	// since nothing here asks who is calling.
	Loopback = "127.0.0.1:0"
	// mostLine is the longest line of stdin, in bytes; a Config has a few hundred.
	mostLine = 64 << 10
	// drainTime is the most that requests in progress get after SIGTERM: the
	// minute of many a real service, at 60 times the speed.
	drainTime = time.Second
)

// Addresses are what a task prints, as one line of JSON, once it listens.
type Addresses struct {
	URL   string `json:"url"`   // of the traffic listener, such as "http://127.0.0.1:4321"
	Admin string `json:"admin"` // of the admin listener
}

// Main runs a task and returns the exit code of its process. The first line of
// stdin is its Config as JSON; to that it answers with its Addresses on stdout.
// Every further line is Faults as JSON, applied at once in place of those
// before; one that is wrong is reported on stderr and changes nothing. At the
// end of stdin it returns 0 at once. On SIGTERM it fails its readiness, takes no
// more connections, finishes what is in progress, for a second at most, and
// returns 0. It returns 1, with an error on stderr, where it cannot serve.
func Main(stdin io.Reader, stdout, stderr io.Writer) int {
	if err := run(stdin, stdout, stderr); err != nil {
		fmt.Fprintf(stderr, "gateway: %v\n", err)
		return 1
	}
	return 0
}

func run(stdin io.Reader, stdout, stderr io.Writer) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	defer signal.Stop(terminated)
	profileContention()

	lines := bufio.NewScanner(stdin)
	lines.Buffer(nil, mostLine)
	if !lines.Scan() {
		return fmt.Errorf("expected a line with the task's config on stdin, saw none: %w", errors.Join(lines.Err(), io.ErrUnexpectedEOF))
	}
	var cfg Config
	if err := decode(lines.Text(), &cfg); err != nil {
		return fmt.Errorf("read the task's config: %w", err)
	}
	t, err := startTask(ctx, cfg)
	if err != nil {
		return err
	}
	if err := pushProfiles(cfg); err != nil {
		return err
	}
	if err := json.NewEncoder(stdout).Encode(t.addresses); err != nil {
		return fmt.Errorf("print the task's addresses: %w", err)
	}

	ended := make(chan error, 1)
	go func() {
		for lines.Scan() {
			if err := t.applyLine(lines.Text()); err != nil {
				fmt.Fprintf(stderr, "gateway: %v\n", err)
			}
		}
		ended <- lines.Err()
	}()
	select {
	case err := <-ended:
		return err
	case err := <-t.failed:
		return err
	case <-terminated:
		t.drain(ctx)
		return nil
	}
}

// task is a gateway that listens.
type task struct {
	*gateway
	addresses Addresses
	shutdown  func(context.Context) error
	failed    chan error // what ended a listener
}

func startTask(ctx context.Context, cfg Config) (*task, error) {
	g, err := newGateway(ctx, cfg)
	if err != nil {
		return nil, err
	}
	traffic, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	beside, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	t := &task{
		gateway:   g,
		addresses: Addresses{URL: "http://" + traffic.Addr().String(), Admin: "http://" + beside.Addr().String()},
		failed:    make(chan error, 2),
	}
	held := holdingListener{traffic, g.buffers}
	if cfg.Loops > 0 {
		loops := newEventLoops(ctx, g)
		t.shutdown = func(ctx context.Context) error { return loops.shutdown(ctx, traffic) }
		go t.watch(func() error { return loops.serve(held) })
	} else {
		server := newServer(ctx, g.handler())
		t.shutdown = server.Shutdown
		go t.watch(func() error { return serve(server, held) })
	}
	go t.watch(func() error { return serve(newServer(ctx, g.admin()), beside) })
	return t, nil
}

// listen opens a listener that is closed when ctx ends.
func listen(ctx context.Context) (net.Listener, error) {
	listener, err := net.Listen("tcp", Loopback)
	if err != nil {
		return nil, fmt.Errorf("listen on loopback: %w", err)
	}
	context.AfterFunc(ctx, func() { listener.Close() })
	return listener, nil
}

func (t *task) watch(serve func() error) {
	if err := serve(); err != nil {
		t.failed <- err
	}
}

// applyLine puts the faults of one line of JSON in force.
func (t *task) applyLine(line string) error {
	var f Faults
	if err := decode(line, &f); err != nil {
		return fmt.Errorf("read faults: %w", err)
	}
	return t.apply(f)
}

// drain ends the traffic listener's requests, or leaves those that take too long.
func (t *task) drain(ctx context.Context) {
	t.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	_ = t.shutdown(ctx) // fails only where requests were left, which is no fault of the task's
}

// decode reads one JSON value and refuses fields that do not exist, which are
// faults that would not be injected.
func decode(line string, into any) error {
	d := json.NewDecoder(strings.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if d.More() {
		return errors.New("expected one JSON value on the line, saw more")
	}
	return nil
}
