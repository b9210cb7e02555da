// Tg-shim stands in for one MCP server that an agent starts.
//
// It starts the real server, carries every line between the two byte for byte,
// and asks thoughtgated about each one that must be judged. It decides nothing
// by itself but what is no message at all, and it can only ask: what answers
// questions is another program on another socket.
//
// Usage:
//
//	tg-shim --server-id ID [--profile P] -- COMMAND [ARGS...]
//	tg-shim --extension NAME [--profile P]
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/sock"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// release is set by the build.
var release = "dev"

const usage = `Usage: tg-shim --server-id ID [--profile P] -- COMMAND [ARGS...]
       tg-shim --extension NAME [--profile P]

Starts the MCP server COMMAND and puts ThoughtGate between it and the agent on
standard input and output. It is written into an agent's configuration by
"tgctl wrap"; there is no need to call it by hand.

With --extension it starts nothing: the server is the tools of an extension that
the daemon runs, called ext-NAME in rules and records. Such an entry is written
by hand; "tgctl ext show NAME" shows it.

Options:
  --server-id ID    what the server is called in rules and records
  --extension NAME  the extension whose tools are the server
  --profile P       production or development; may only tighten what the
                    configuration says
  --from FILE       the project's file that names the server: it is started
                    only when somebody has agreed to what it would run
  --sets NAME       a variable that this file sets for the server; may be
                    repeated
  --version         print the version and exit

Environment:
  THOUGHTGATE_SOCKET    the daemon's shim.sock; else that of the runtime folder
  THOUGHTGATE_SESSION   the wrap this server belongs to
  THOUGHTGATE_PATIENCE  how long the agent waits for a call, as 90s; else what is
                        known of the agent
  THOUGHTGATE_LOG       debug, info, warn (default) or error, on standard error

Exit status: the server's own; 125 when ThoughtGate fails or withholds the
server, 126 when the server can't be run, 127 when it isn't found.

Example:
  tg-shim --server-id files -- npx -y @modelcontextprotocol/server-filesystem .
`

func main() {
	// One small process stands beside every server: what it keeps for speed is
	// paid for by each of them.
	debug.SetGCPercent(40)
	// It waits for three peers and hands lines on. On one thread a line passes
	// from goroutine to goroutine without waking another thread each time.
	runtime.GOMAXPROCS(1)
	stdin, restore := pollable(os.Stdin, os.Stdout, os.Stderr)
	code := run(os.Args[1:], os.Getenv, stdin, os.Stdout, os.Stderr)
	restore()
	os.Exit(code)
}

// pollable returns f such that who waits in Read holds no thread, if f is a
// pipe or a socket. That is a setting of the open file, which others may share,
// so restore puts it back. Both files have the one descriptor: neither may be
// closed, nor f be collected, before whoever else uses it is done. Where it is shared with one of others, which would
// then fail as soon as their reader is slow, f is returned as it is.
func pollable(f *os.File, others ...*os.File) (file *os.File, restore func()) {
	restore = func() {}
	info, err := f.Stat()
	if err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return f, restore
	}
	for _, other := range others {
		if theirs, err := other.Stat(); err == nil && os.SameFile(info, theirs) {
			return f, restore
		}
	}
	fd := int(f.Fd()) // Fd itself makes the file block
	if err := syscall.SetNonblock(fd, true); err != nil {
		return f, restore
	}
	file = os.NewFile(uintptr(fd), f.Name())
	return file, func() {
		_ = syscall.SetNonblock(fd, false)
		runtime.KeepAlive(file) // when it is collected its descriptor is closed
	}
}

// options is what the command line and the environment say.
type options struct {
	server  string
	profile pb.Profile
	socket  string
	session string
	from    string   // the project's file that names the server
	sets    []string // names of the variables that it sets
	command []string
	level   slog.Level

	extension string // whose tools are the server; empty where command is

	patience time.Duration // 0 where nobody said
}

func run(args []string, getenv func(string) string, stdin *os.File, stdout, stderr io.Writer) int {
	o, err := parse(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, "tg-shim", release)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "tg-shim: %v\nRun \"tg-shim --help\" for the usage.\n", err)
		return 2
	}
	s := &shim{
		options: o, stdin: child.NewReadEnd(stdin), stdout: stdout, stderr: stderr,
		log: slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level})).
			With("component", "shim", "server_id", o.server),
	}
	return s.run()
}

var errVersion = errors.New("version asked for")

// checkServer checks that one server is named, and names that of an extension.
func (o *options) checkServer() error {
	switch {
	case o.extension != "" && (o.server != "" || o.from != "" || len(o.sets) > 0 || len(o.command) > 0):
		return errors.New("with --extension there is no other server: leave out --server-id, --from, --sets and the command")
	case o.extension != "":
		o.server = "ext-" + o.extension
	case o.server == "":
		return errors.New("--server-id is missing")
	case o.from != "" && !filepath.IsAbs(o.from):
		return fmt.Errorf("--from is %q; an absolute path is needed", o.from)
	case len(o.command) == 0:
		return errors.New("the server's command is missing after --")
	}
	return nil
}

func parse(args []string, getenv func(string) string) (options, error) {
	o := options{session: getenv("THOUGHTGATE_SESSION"), level: slog.LevelWarn}
	flags := flag.NewFlagSet("tg-shim", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.server, "server-id", "", "")
	profile := flags.String("profile", "", "")
	flags.StringVar(&o.extension, "extension", "", "")
	flags.StringVar(&o.from, "from", "", "")
	flags.Func("sets", "", func(name string) error { o.sets = append(o.sets, name); return nil })
	showVersion := flags.Bool("version", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *showVersion {
		return o, errVersion
	}
	switch *profile {
	case "":
	case "production":
		o.profile = pb.Profile_PROFILE_PRODUCTION
	case "development":
		o.profile = pb.Profile_PROFILE_DEVELOPMENT
	default:
		return o, fmt.Errorf("--profile is %q; it can be production or development", *profile)
	}
	o.command = flags.Args()
	if err := o.checkServer(); err != nil {
		return o, err
	}
	if p := getenv("THOUGHTGATE_PATIENCE"); p != "" {
		var err error
		if o.patience, err = time.ParseDuration(p); err != nil || o.patience <= 0 {
			return o, fmt.Errorf("THOUGHTGATE_PATIENCE is %q; give a time such as 90s", p)
		}
	}
	if l := getenv("THOUGHTGATE_LOG"); l != "" {
		if err := o.level.UnmarshalText([]byte(l)); err != nil {
			return o, fmt.Errorf("THOUGHTGATE_LOG: %w", err)
		}
	}
	if o.socket = getenv("THOUGHTGATE_SOCKET"); o.socket == "" {
		paths, err := sock.DefaultPaths(getenv)
		if err != nil {
			return o, fmt.Errorf("find the daemon's socket: %w", err)
		}
		o.socket = paths.ShimSocket()
	}
	return o, nil
}
