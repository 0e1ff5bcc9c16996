// Command contend says where the time of a service goes: which lock, pool or
// dependency its requests wait for, from profiles, dumps and series.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/contend/contend/detect/report"
)

func main() {
	// net/http logs what a broken server sends, with its bytes, through the
	// standard logger. What matters of it is in the error of that input.
	log.SetOutput(io.Discard)
	// A reader that went away (| head) shows as EPIPE, which is no error: see
	// written. The signal would end the process before its exit code is known.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// Exit codes; the README and the help of analyze name them too.
const (
	exitOK     = 0 // the command ran, whatever it found
	exitFailed = 1 // a named input could not be read, or the output not written
	exitUsage  = 2
	exitFound  = 3 // something at or above --fail-on was found
)

// outcome is an error with an exit code. err is nil where all has been said.
type outcome struct {
	code int
	err  error
}

func (o *outcome) Error() string {
	if o.err == nil {
		return fmt.Sprintf("exit code %d", o.code)
	}
	return o.err.Error()
}

func (o *outcome) Unwrap() error { return o.err }

// run executes one command line and returns its exit code.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var o *outcome
	if errors.As(err, &o) {
		if o.err != nil {
			complainEach(stderr, o.err)
		}
		return o.code
	}
	// What is left are errors in flags and arguments, most of them cobra's.
	complain(stderr, err.Error())
	fmt.Fprintf(stderr, "see %s --help\n", cmd.CommandPath())
	return exitUsage
}

// untilSignal is done at the first Ctrl-C or SIGTERM (timeout, a job's end). The
// handler is gone then: a second one ends the process.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}

// complain prints a message on one line.
func complain(stderr io.Writer, message string) {
	message = strings.ReplaceAll(strings.TrimSpace(message), "\n", " ")
	fmt.Fprintf(stderr, "contend: %s\n", report.Printable(message))
}

// complainEach prints an error, and of joined ones each on a line of its own: a rule
// file has several, and editors look for file:line: at the head of a line.
func complainEach(stderr io.Writer, err error) {
	// An error with two %w has a text of its own around them: it stays whole.
	if several, ok := err.(interface{ Unwrap() []error }); ok && errors.Join(several.Unwrap()...).Error() == err.Error() {
		for _, one := range several.Unwrap() {
			complainEach(stderr, one)
		}
		return
	}
	complain(stderr, err.Error())
}

func rootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "contend",
		Short: "Find what the requests of a slow service wait for",
		// With the commands it fits a screen.
		Long: `contend says what the requests of a slow service wait for, and who holds it up.`,
		Example: `  contend analyze http://localhost:6060   a live process with net/http/pprof
  contend analyze goroutine.pb.gz         a profile, a dump or series in a file
  contend demo run incident               a published outage, in 80 seconds`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}, analyzeCommand(), annotateCommand(), captureCommand(), completionCommand(), explainCommand(), demoCommand(),
		headroomCommand(), manCommand(), receiveCommand(), rulesCommand(), dashboardsCommand(),
		serveCommand(), watchCommand(), versionCommand())
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetUsageFunc(usage)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCommand())
	addCompletions(root)
	return root
}
