package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/contend/contend/demo/gateway"
)

// serveGateway serves the scenario's gateway on loopback until stdin or ctx
// ends. The first line on stdout is its URL.
func serveGateway(ctx context.Context, s scenario, stdin io.Reader, stdout io.Writer) error {
	gateway.ProfileContention()
	g, err := gateway.New(s.gateway)
	if err != nil {
		return fmt.Errorf("make the gateway: %w", err)
	}
	listener, err := net.Listen("tcp", gateway.Loopback)
	if err != nil {
		return fmt.Errorf("listen on loopback: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		io.Copy(io.Discard, stdin)
		stop()
	}()
	fmt.Fprintf(stdout, "http://%v\n", listener.Addr())
	return g.Serve(ctx, listener)
}

// process is a gateway that runs beside this one.
type process struct {
	url string
	cmd *exec.Cmd
}

// startProcess starts this binary again to serve the scenario's gateway, and
// waits until it listens. The end of ctx kills it.
func startProcess(ctx context.Context, s scenario) (*process, error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program's own file: %w", err)
	}
	cmd := exec.CommandContext(ctx, binary, "-serve", "-scenario", s.name)
	cmd.Stderr = os.Stderr
	// A killed gateway's pipes are closed after this long whatever holds them.
	cmd.WaitDelay = 5 * time.Second
	// Nothing is written: the pipe ends with this process, and the gateway with the pipe.
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("connect the gateway's input: %w", err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("connect the gateway's output: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the gateway: %w", err)
	}
	p := &process{cmd: cmd}
	if n, err := fmt.Fscanln(bufio.NewReader(io.LimitReader(stdout, 1024)), &p.url); n != 1 {
		p.stop()
		return nil, fmt.Errorf("expected the gateway to print its address, saw none: %w", err)
	}
	return p, nil
}

// stop kills the gateway and waits until it is gone. Under a fault it would be
// slow to end by itself, and nothing in it is worth waiting for.
func (p *process) stop() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}
