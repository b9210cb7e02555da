package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// options are the options of a run.
type options struct {
	bin      string
	base     string // folder of the programs to compare with; empty for none
	peers    []peer
	turns    int
	only     *regexp.Regexp // matches names of measurements
	json     string
	markdown string
	profiles string // folder for CPU profiles of the daemon; empty for none
	records  int    // of the long log
	command  string // reproduces the run
}

// peer is another gate: its command, to which the server's command is appended.
type peer struct {
	name    string
	command []string
}

// parse parses the arguments of a run.
func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.StringVar(&o.bin, "bin", "bin", "folder with thoughtgated, tg-shim and tgctl, and the extension quota in extensions/quota")
	flags.StringVar(&o.base, "base", "", "folder with the same programs of another commit, to compare with")
	flags.Func("peer", "another gate to compare with, as NAME=COMMAND, more than once if you like: COMMAND is split at spaces, "+
		"that of the server is put behind it, and each session is started in an empty folder of its own", o.addPeer)
	flags.IntVar(&o.turns, "turns", 18, "how often each way takes its turn")
	flags.Func("only", "run the measurements whose names match this regexp: "+strings.Join(names(), ", "), func(text string) (err error) {
		o.only, err = regexp.Compile(text)
		return err
	})
	flags.StringVar(&o.json, "json", "", "file for the figures as JSON")
	flags.StringVar(&o.markdown, "markdown", "", "page to put the tables into, between its two marks")
	flags.StringVar(&o.profiles, "cpuprofile", "", "folder for profiles of the daemon, processor and heap, for each measurement")
	flags.IntVar(&o.records, "records", 1_000_000, "records of the long log")
	flags.StringVar(&o.command, "command", "go run ./internal/test/bench", "what the report says that it was made with")
	o.only = regexp.MustCompile("")
	flags.SetOutput(io.Discard) // main reports errors
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(os.Stderr)
			flags.PrintDefaults()
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("%q is no flag, and bench takes nothing else", flags.Arg(0))
	}
	return o, o.absolute()
}

// absolute makes the folders of programs absolute, since they are started in other folders.
func (o *options) absolute() error {
	for _, folder := range []*string{&o.bin, &o.base} {
		if *folder == "" {
			continue
		}
		path, err := filepath.Abs(*folder)
		if err != nil {
			return err
		}
		*folder = path
	}
	return nil
}

// peerName matches valid names of peers: the name is the head of a column and part of the name
// of a folder.
var peerName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9.-]*$`)

// addPeer parses NAME=COMMAND.
func (o *options) addPeer(text string) error {
	name, command, _ := strings.Cut(text, "=")
	p := peer{name: name, command: strings.Fields(command)}
	taken := func(other peer) bool { return other.name == name }
	switch {
	case !peerName.MatchString(name) || len(p.command) == 0:
		return errors.New("write NAME=COMMAND, with a NAME of letters, digits, dots and dashes")
	case slices.Contains([]string{"direct", "floor", "ours", baseName}, name) || slices.ContainsFunc(o.peers, taken):
		return fmt.Errorf("there is a way called %s already: choose another NAME", name)
	}
	o.peers = append(o.peers, p)
	return nil
}
