// Tg-fleet is the courier between the daemon of a machine and the engine of its fleet, or the
// web server and the collector of one that has no engine.
//
// It decides nothing and is not trusted: what it brings is verified by the daemon, and what
// it takes was redacted by the daemon before. "tgctl fleet" runs it for all that speaks to
// the engine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/thoughtgate/thoughtgated/internal/private"
)

// release is set by the build.
var release = "dev"

const usage = `Usage: tg-fleet
       tg-fleet COMMAND [OPTIONS] [ARGUMENTS]

Without a command it is the courier of this machine's fleet, in the foreground:
it sends the audit log and questions, and brings policies and decisions to the
daemon. "tgctl fleet" has the commands for people, and runs these:

On a machine of a fleet:
  enrol            exchange the token on standard input for an identity
  leave            tell the engine that this machine leaves, and forget the identity
  state            print what the running courier does
  outgoing         print the records that leave, exactly as they do
  flush            wait until all records were sent
  key              print the age recipient of an approver; make it if there is none

With ADMIN, the folder of an engine:
  init ADMIN       write the configuration of a new engine
  apply ADMIN      make the engine's streams
  issue ADMIN      answer machines that enrol or renew, until a signal
  token ADMIN      print a token for a new machine
  publish ADMIN GROUP
                   publish the policy on standard input for a group
  devices ADMIN    list the machines and what they say of themselves
  revoke ADMIN DEVICE
                   end what a machine may do
  pull ADMIN DIR   read the audit logs of all machines into a folder
  verify DIR       verify the audit logs in that folder

"tg-fleet COMMAND --help" lists options. Results are JSON, one object on a line.

Signals: SIGTERM and SIGINT end it.
Exit status: 0, or 1 if something failed, 2 for a wrong command line, 4 if a log
is not as it was written.
`

// Exit statuses.
const (
	exitFailed = 1
	exitUsage  = 2
	exitNo     = 4
)

// env is what a command gets from the process.
type env struct {
	getenv func(string) string
	stdin  io.Reader
	stdout io.Writer
	log    *slog.Logger
}

// errUsage is the error of a wrong command line.
var errUsage = errors.New("wrong usage")

// commands are all but the courier itself.
var commands = map[string]func(ctx context.Context, args []string, e env) error{
	"enrol": enrol, "leave": leave, "state": state, "outgoing": outgoing, "flush": flush, "key": key,
	"init": initEngine, "apply": apply, "issue": issue, "token": token, "publish": publish, "devices": devices, "revoke": revoke,
	"pull": pull, "verify": verify,
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := run(ctx, os.Args[1:], env{os.Getenv, os.Stdin, os.Stdout, slog.New(slog.NewTextHandler(os.Stderr, nil))}, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, e env, stderr io.Writer) int {
	if err := errors.Join(private.NoCore(), private.NoReading()); err != nil { // it holds keys
		fmt.Fprintln(stderr, "tg-fleet:", err)
		return exitFailed
	}
	command, rest := courierOf, args
	if len(args) > 0 {
		switch args[0] {
		case "-h", "--help", "help":
			fmt.Fprint(e.stdout, usage)
			return 0
		case "--version":
			fmt.Fprintln(e.stdout, "tg-fleet", release)
			return 0
		}
		var ok bool
		if command, ok = commands[args[0]]; !ok {
			fmt.Fprintf(stderr, "tg-fleet: there is no command %.40q. Run \"tg-fleet --help\" for the usage.\n", args[0])
			return exitUsage
		}
		rest = args[1:]
	}
	var faults *faultError
	switch err := command(ctx, rest, e); {
	case err == nil, errors.Is(err, flag.ErrHelp), ctx.Err() != nil && errors.Is(err, context.Canceled):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintln(stderr, "tg-fleet:", err)
		return exitUsage
	case errors.As(err, &faults):
		fmt.Fprintln(stderr, "tg-fleet:", err)
		return exitNo
	default:
		fmt.Fprintln(stderr, "tg-fleet:", err)
		return exitFailed
	}
}

// parse parses the options of a command and returns its arguments, of which there must be
// that many. Options may stand before and after them.
func parse(flags *flag.FlagSet, args []string, e env, names ...string) ([]string, error) {
	flags.SetOutput(e.stdout)
	flags.Usage = func() {
		fmt.Fprintf(e.stdout, "Usage: tg-fleet %s", flags.Name())
		for _, name := range names {
			fmt.Fprintf(e.stdout, " %s", name)
		}
		fmt.Fprintln(e.stdout)
		flags.PrintDefaults()
	}
	var rest []string
	for {
		if err := flags.Parse(args); err != nil {
			if !errors.Is(err, flag.ErrHelp) {
				err = fmt.Errorf("%w: %w", errUsage, err)
			}
			return nil, err
		}
		if args = flags.Args(); len(args) == 0 {
			break
		}
		rest, args = append(rest, args[0]), args[1:]
	}
	if len(rest) != len(names) {
		return nil, fmt.Errorf("%w: %s takes %d arguments, and got %d", errUsage, flags.Name(), len(names), len(rest))
	}
	return rest, nil
}
