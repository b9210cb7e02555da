// Thoughtgated is ThoughtGate's daemon, one for each user. It forwards and judges the lines
// between that user's agents and their MCP servers, holds the questions that people answer,
// and writes the audit log.
//
// Usage:
//
//	thoughtgated [--keep] [--config FILE] [--log-level L] [--log-format text|json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/thoughtgate/thoughtgated/daemon"
	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/keep"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/private"
	"github.com/thoughtgate/thoughtgated/internal/sock"
)

// release is set by the build.
var release = "dev"

const usage = `Usage: thoughtgated [options]
       thoughtgated --check [--json] [FILE]
       thoughtgated --schema [config|project|test]

ThoughtGate's daemon, one for each user. It runs in the foreground and listens
on the sockets that the service manager passes, or on its own.

Options:
  --config FILE      the configuration (default: $THOUGHTGATE_CONFIG, or else
                     thoughtgate.yaml in the configuration folder, or else the
                     built-in default)
  --log-level L      debug, info, warn or error (default info)
  --log-format F     text or json (default: text on a terminal, journal fields
                     if standard error is the journal, or else json)
  --check [FILE]     read the configuration and the policies it names, report
                     all errors, and exit: 0 if they are valid, 4 if not
  --json             with --check, print one JSON object
  --schema [KIND]    print a JSON Schema of thoughtgate.yaml, of a project's
                     .thoughtgate.yaml, or of files of expected verdicts
  --keep             run as the daemon's keeper, as tgctl does without systemd:
                     hold the sockets and the pipes of running servers, start
                     the daemon, and restart it if it dies
  --policies         answer tgctl's requests about policies on the socket on
                     standard input, and open no other
  --version          print the version and exit

Signals: SIGHUP reloads the configuration; SIGTERM and SIGINT end the daemon,
and running servers continue with the next one if systemd restarts it. A keeper
forwards them; on SIGUSR2 it restarts the daemon with the program that is
installed then.

Example:
  thoughtgated --config ~/trial/thoughtgate.yaml --log-level debug
`

// minProcs is the least number of processors of the runtime, however few the machine has.
const minProcs = 4

// reserve is part of the heap and is never written, so it takes no memory of the machine. It
// makes the collector wait for at least 10 MB of garbage.
const reserve = 16 << 20

func main() {
	// With many attachments this saves memory. With few the heap is so small that garbage would
	// be collected after a few hundred calls, so the reserve counts as part of it.
	debug.SetGCPercent(60)
	unused := make([]byte, reserve)
	// The runtime starts a thread to look for work when it takes back the last processor from one
	// that waits in a system call, which happens all the time where there are few.
	runtime.GOMAXPROCS(max(runtime.GOMAXPROCS(0), minProcs))
	code := run(os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	runtime.KeepAlive(unused)
	os.Exit(code)
}

// options are the settings of the command line.
type options struct {
	config  string
	level   slog.Level
	format  string
	check   bool
	json    bool
	version bool

	keep     bool // this process is the daemon's keeper
	policies bool
	schema   bool
	kind     string // of the schema
}

const (
	exitFailed = 1
	exitUsage  = 2
	exitNo     = 4 // --check found errors
)

func run(args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "thoughtgated: %v\nRun \"thoughtgated --help\" for the usage.\n", err)
		return notStarted(exitUsage, getenv)
	case o.version:
		fmt.Fprintln(stdout, "thoughtgated", release)
		return 0
	case o.check:
		return check(o, getenv, stdout, stderr)
	case o.schema:
		return schema(o.kind, stdout, stderr)
	case o.policies:
		return policies(o, getenv, stderr)
	case o.keep:
		return keepDaemon(o, args, getenv, stderr)
	}
	if ready, err := serve(o, getenv, stderr); err != nil {
		var refused *daemon.ConfigError
		if errors.As(err, &refused) {
			for _, d := range refused.Problems {
				fmt.Fprintln(stderr, d)
			}
		}
		code := failed(stderr, err)
		if !ready {
			return notStarted(code, getenv)
		}
		return code
	}
	return 0
}

// failed prints why the process ends and, if known, how to fix that.
func failed(stderr io.Writer, err error) int {
	fmt.Fprintf(stderr, "thoughtgated: %v\n", err)
	if what := sock.FixForDiskError(err); what != "" {
		fmt.Fprintf(stderr, "To fix it, %s.\n", what)
	}
	return exitFailed
}

// startPause is how long a daemon that can't start waits before it exits under systemd, which
// restarts it at once.
const startPause = 2 * time.Second

func notStarted(code int, getenv func(string) string) int {
	if getenv("NOTIFY_SOCKET") != "" {
		time.Sleep(startPause)
	}
	return code
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("thoughtgated", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.config, "config", "", "")
	flags.TextVar(&o.level, "log-level", slog.LevelInfo, "")
	flags.StringVar(&o.format, "log-format", "", "")
	flags.BoolVar(&o.check, "check", false, "")
	flags.BoolVar(&o.json, "json", false, "")
	flags.BoolVar(&o.version, "version", false, "")
	flags.BoolVar(&o.schema, "schema", false, "")
	flags.BoolVar(&o.keep, "keep", false, "")
	flags.BoolVar(&o.policies, "policies", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	rest := flags.Args()
	if o.check && len(rest) > 0 && o.config == "" {
		o.config, rest = rest[0], rest[1:]
		// Options may follow the file.
		if err := flags.Parse(rest); err != nil {
			return o, err
		}
		rest = flags.Args()
	}
	o.kind = "config"
	if o.schema && len(rest) == 1 {
		o.kind, rest = rest[0], nil
	}
	switch {
	case len(rest) > 0:
		return o, fmt.Errorf("unexpected argument %q", rest[0])
	case o.format != "" && o.format != "text" && o.format != "json":
		return o, fmt.Errorf("--log-format is %q; it must be text or json", o.format)
	case o.json && !o.check:
		return o, errors.New("--json requires --check")
	case schemas[o.kind] == nil:
		return o, fmt.Errorf("no schema for %q; use config, project or test", o.kind)
	}
	return o, nil
}

// stopTimeout is the timeout for ending. It is shorter than that of service managers, which then
// kill. It covers goroutines that hang in a system call and can't be stopped.
const stopTimeout = 15 * time.Second

// serve runs the daemon until a signal or a call ends it. ready reports whether it became
// ready.
func serve(o options, getenv func(string) string, stderr io.Writer) (ready bool, err error) {
	log := newLogger(o, "daemon", getenv, stderr)
	takeLibraries(log)
	store, err := keep.Open()
	if err != nil {
		return false, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGPIPE)
	if err := errors.Join(private.NoCore(), private.NoReading()); err != nil {
		return false, err
	}
	stopReaping, err := child.AdoptOrphans()
	if err != nil {
		log.Debug("adopt orphaned processes; those that programs leave behind can't be found by descent", "err", err)
	}
	defer stopReaping()

	l, err := listen(getenv, store, log)
	if err != nil {
		return false, err
	}
	defer l.close()
	attending, leave := context.WithCancel(ctx)
	defer leave()
	d, err := daemon.New(daemon.Options{
		Paths: l.paths, Config: o.config, Getenv: getenv, Logger: log, Build: release,
		Control: l.control, Shim: l.shim, Activated: l.activated, Keep: store,
		Stopping: func() {
			notify(store, log, sd.SdNotifyStopping)
			leave()
			time.AfterFunc(stopTimeout, func() {
				log.Error("the daemon did not end in time and exits now: a file system or a program does not answer; what was recorded is kept", "limit", stopTimeout)
				os.Exit(exitFailed)
			})
		},
	})
	if err != nil {
		return false, err
	}
	attended := runServiceTasks(attending, d, store, log)
	notify(store, log, sd.SdNotifyReady)
	log.Info("ready", "control", l.paths.ControlSocket(), "activated", l.activated, "version", release)
	err = d.Run(ctx)
	leave()
	attended()
	log.Info("stopped")
	return true, err
}

// checked is the output of --check --json.
type checked struct {
	Path     string              `json:"path"` // empty for the built-in default
	OK       bool                `json:"ok"`
	Problems []config.Diagnostic `json:"problems"`
}

// check reports all problems of a configuration, with the same code that puts it in force.
func check(o options, getenv func(string) string, stdout, stderr io.Writer) int {
	path, problems, err := daemon.Check(o.config, getenv)
	if err != nil {
		return failed(stderr, err)
	}
	bad := config.HasErrors(problems)
	if o.json {
		out := checked{path, !bad, append([]config.Diagnostic{}, problems...)}
		if err := json.NewEncoder(stdout).Encode(out); err != nil {
			return failed(stderr, err)
		}
	} else {
		for _, d := range problems {
			fmt.Fprintln(stderr, d)
		}
		if path == "" {
			path = "the built-in default"
		}
		if !bad {
			fmt.Fprintf(stdout, "%s: ok\n", path)
		}
	}
	if bad {
		return exitNo
	}
	return 0
}

// schemas are the JSON Schemas that --schema prints.
var schemas = map[string]func() []byte{
	"config": config.Schema, "project": config.ProjectSchema, "test": config.TestSchema,
}

func schema(kind string, stdout, stderr io.Writer) int {
	if _, err := stdout.Write(schemas[kind]()); err != nil {
		return failed(stderr, err)
	}
	return 0
}

// policies answers questions about policies on standard input.
func policies(o options, getenv func(string) string, stderr io.Writer) int {
	conn, err := net.FileConn(os.Stdin)
	if err != nil {
		return failed(stderr, errors.New("--policies is for tgctl, which passes a socket on standard input"))
	}
	if err := daemon.ServePolicies(conn, o.config, getenv, newLogger(o, "policies", getenv, stderr), release); err != nil {
		return failed(stderr, err)
	}
	return 0
}
