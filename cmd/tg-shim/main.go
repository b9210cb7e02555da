// Tg-shim takes the place of one MCP server that an agent starts.
//
// It hands the agent's standard input and output to thoughtgated, which forwards the lines
// between agent and server and judges the calls. It starts the server when thoughtgated tells
// it to, and exits as the server does. It makes no decisions itself.
//
// Usage:
//
//	tg-shim --server-id ID [--profile P] -- COMMAND [ARGS...]
//	tg-shim --server-id ID [--profile P] --remote
//	tg-shim --extension NAME [--profile P]
//	tg-shim hook --socket PATH [--session ID] [--limit D] [--report] AGENT
//
// As hook, it answers an agent that is about to use a tool of its own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/attach"
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/hook"
	_ "github.com/thoughtgate/thoughtgated/cmd/tg-shim/oneproc" // one processor
	"github.com/thoughtgate/thoughtgated/cmd/tg-shim/serve"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// release is set by the build.
var release = "dev"

const usage = `Usage: tg-shim --server-id ID [--profile P] -- COMMAND [ARGS...]
       tg-shim --server-id ID [--profile P] --remote
       tg-shim --extension NAME [--profile P]
       tg-shim hook --socket PATH [OPTIONS] AGENT

Starts the MCP server COMMAND and connects it through ThoughtGate to the agent
on standard input and output. "tgctl wrap" writes it into an agent's
configuration; there is no need to run it by hand.

With --remote it starts no program: the server is behind an address, to which
the daemon connects. The agent's configuration had that address; the daemon
knows it from "tgctl wrap" or "tgctl protect".

With --extension it starts no program: the server consists of the tools of an
extension that the daemon runs, and is called ext-NAME in rules and records. You
write such an entry yourself; "tgctl ext show NAME" prints it.

Options:
  --server-id ID    the name of the server in rules and records
  --remote          the server is behind an address
  --extension NAME  the extension whose tools are the server
  --profile P       production or development; can only be stricter than the
                    configuration
  --from FILE       the project's file that names the server; the server is
                    started only after a person has accepted what it runs
  --sets NAME       a variable that FILE sets for the server; can be repeated
  --version         print the version and exit

Environment:
  THOUGHTGATE_SOCKET    the daemon's shim.sock; default: in the runtime folder
  THOUGHTGATE_SESSION   the session that this server belongs to
  THOUGHTGATE_PATIENCE  how long the agent waits for a call, as 90s; default:
                        what is known of the agent

Exit status: that of the server; if a signal ended the server, tg-shim ends by
the same signal; 125 if ThoughtGate fails or withholds the server, 126 if the
server can't be run, 127 if it is not found, 0 if no daemon was running.

Example:
  tg-shim --server-id files -- npx -y @modelcontextprotocol/server-filesystem .
`

func main() {
	// One such process runs beside every server and mostly waits, so it should be small.
	debug.SetGCPercent(40)
	if len(os.Args) > 1 && os.Args[1] == "hook" {
		os.Exit(runHook(os.Args[2:]))
	}
	state, err := run(os.Args[1:], os.Getenv, os.Stdout)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tg-shim: %v\n", err)
	}
	serve.Leave(state)
}

func run(args []string, getenv func(string) string, stdout io.Writer) (child.State, error) {
	o, err := parse(args, getenv)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return child.State{}, nil
	case errors.Is(err, errVersion):
		fmt.Fprintln(stdout, "tg-shim", release)
		return child.State{}, nil
	case err != nil:
		return child.State{Code: 2}, fmt.Errorf("%w\nRun \"tg-shim --help\" for the usage", err)
	}
	o.Hello.Build, o.Times = release, serve.DefaultTimes
	state, err := serve.Run(o)
	if err != nil {
		state.Code = child.ExitInternal
	}
	return state, err
}

// runHook runs `tg-shim hook` and returns the exit code.
func runHook(args []string) int {
	o, err := hook.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(hook.Usage)
		return 0
	case err != nil:
		fmt.Fprintf(os.Stderr, "tg-shim hook: %v\nRun \"tg-shim hook --help\" for the usage\n", err)
		return 2 // which denies the call
	}
	o.Build = release
	return hook.Run(o, os.Stdin, os.Stdout, os.Stderr)
}

var errVersion = errors.New("version requested")

// checkServer checks that exactly one server is named, and sets the id of an extension's
// server.
func checkServer(h *attach.Hello) error {
	switch {
	case h.Extension != "" && (h.Server != "" || h.From != "" || len(h.Sets) > 0 || len(h.Command) > 0 || h.Remote):
		return errors.New("--extension can't be combined with --server-id, --from, --sets, --remote or a command")
	case h.Extension != "":
		h.Server = "ext-" + h.Extension
	case h.Server == "":
		return errors.New("--server-id is missing")
	case h.From != "" && !filepath.IsAbs(h.From):
		return fmt.Errorf("--from is %q; it must be an absolute path", h.From)
	case h.Remote && len(h.Command) > 0:
		return errors.New("--remote can't be combined with a command")
	case !h.Remote && len(h.Command) == 0:
		return errors.New("the server's command is missing after --")
	}
	return nil
}

var profiles = map[string]attach.Profile{"": attach.Unspecified, "production": attach.Production, "development": attach.Development}

func parse(args []string, getenv func(string) string) (serve.Options, error) {
	var o serve.Options
	h := &o.Hello
	h.Session = getenv("THOUGHTGATE_SESSION")
	flags := flag.NewFlagSet("tg-shim", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&h.Server, "server-id", "", "")
	profile := flags.String("profile", "", "")
	flags.StringVar(&h.Extension, "extension", "", "")
	flags.BoolVar(&h.Remote, "remote", false, "")
	flags.StringVar(&h.From, "from", "", "")
	flags.Func("sets", "", func(name string) error { h.Sets = append(h.Sets, name); return nil })
	showVersion := flags.Bool("version", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if *showVersion {
		return o, errVersion
	}
	var known bool
	if h.Profile, known = profiles[*profile]; !known {
		return o, fmt.Errorf("--profile is %q; it must be production or development", *profile)
	}
	h.Command = flags.Args()
	if err := checkServer(h); err != nil {
		return o, err
	}
	if p := getenv("THOUGHTGATE_PATIENCE"); p != "" {
		var err error
		if h.Patience, err = time.ParseDuration(p); err != nil || h.Patience <= 0 {
			return o, fmt.Errorf("THOUGHTGATE_PATIENCE is %q; it must be a duration such as 90s", p)
		}
	}
	if o.Socket = getenv("THOUGHTGATE_SOCKET"); o.Socket == "" {
		paths, err := sock.DefaultPaths(getenv)
		if err != nil {
			return o, fmt.Errorf("find the daemon's socket: %w", err)
		}
		o.Socket = paths.ShimSocket()
	}
	return o, nil
}
