package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	contend "github.com/contend/contend/ingest/stacks"
)

// hugeSize is far above what a runtime writes (64 MiB): dumps get
// concatenated in logs, and memory must not follow their size.
const hugeSize = 1 << 30

func readHuge() error {
	start := time.Now()
	snapshots, err := contend.ReadText("huge", &stream{generator: newGenerator(), left: hugeSize})
	if err != nil {
		return err
	}
	took := time.Since(start)
	peak, err := peakMemory()
	if err != nil {
		return err
	}
	fmt.Printf("%d goroutines, 1 GiB in %.1f s with its making, peak memory %s\n", count(snapshots), took.Seconds(), peak)
	for _, s := range snapshots {
		for _, w := range s.Warnings {
			fmt.Println("warning:", w)
		}
	}
	return nil
}

// peakMemory is the most resident memory this process has had.
func peakMemory() (string, error) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return "", err
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if v, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			return strings.TrimSpace(v), nil
		}
	}
	return "", errors.New("/proc/self/status has no line VmHWM")
}

// processes times contend and pprof on one profile, as started by a user and,
// for pprof, without the go command in front.
func processes(profile string, rounds int) error {
	profile, err := filepath.Abs(profile)
	if err != nil {
		return err
	}
	root, err := output("go", "list", "-m", "-f", "{{.Dir}}", "github.com/contend/contend")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bin := filepath.Join(dir, "contend")
	if _, err := output("go", "build", "-C", root, "-o", bin, "./cmd/contend"); err != nil {
		return err
	}
	pprof, err := output("go", "tool", "-n", "pprof")
	if err != nil {
		return err
	}
	commands := []*command{
		{name: "contend analyze", argv: []string{bin, "analyze", profile}},
		{name: "go tool pprof -top", argv: []string{"go", "tool", "pprof", "-top", profile}},
		{name: "pprof -top, without the go command", argv: []string{pprof, "-top", profile}},
	}
	for range rounds + 1 { // the first fills the caches
		for _, c := range commands {
			start := time.Now()
			if _, err := output(c.argv...); err != nil {
				return err
			}
			c.seconds = append(c.seconds, time.Since(start).Seconds())
		}
	}
	for _, c := range commands {
		c.seconds = c.seconds[1:]
		fmt.Printf("%-36s %7.1f ms\n", c.name, 1000*median(c.seconds))
	}
	for _, c := range commands[1:] {
		fmt.Printf("time of contend / time of %s: %.2f\n", c.name, median(quotients(commands[0].seconds, c.seconds)))
	}
	return nil
}

type command struct {
	name    string
	argv    []string
	seconds []float64
}

func output(argv ...string) (string, error) {
	out, err := exec.Command(argv[0], argv[1:]...).Output()
	if failed := new(exec.ExitError); errors.As(err, &failed) {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, failed.Stderr)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
