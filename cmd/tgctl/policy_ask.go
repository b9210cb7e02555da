package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// policies connects to whoever answers questions about policies: the daemon, or
// where none runs the program that would be it, for as long as the client is
// open. The caller calls done in the end.
func (a *app) policies(ctx context.Context) (c *client.Client, done func(), err error) {
	c, err = a.dialRunning(ctx)
	if err == nil {
		return c, func() { c.Close() }, nil
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return nil, nil, err
	}
	program, err := a.sibling(daemonName)
	if err != nil {
		return nil, nil, err
	}
	return policiesOf(ctx, program, a.environ())
}

// policiesOf starts program, a thoughtgated, with --policies and speaks to it over a socket
// that nobody else has.
func policiesOf(ctx context.Context, program string, env []string) (*client.Client, func(), error) {
	ours, theirs, err := socketpair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	cmd := exec.CommandContext(ctx, program, "--policies", "--log-level", "error")
	cmd.Env = env
	cmd.Stdin = theirs
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("start %s: %w", daemonName, err)
	}
	theirs.Close() // or its end would never be seen
	c, err := client.Over(ctx, ours)
	if err != nil {
		// It ends with its socket, and what it said is worth more than how it ended.
		_ = cmd.Wait()
		return nil, nil, fmt.Errorf("%s --policies: %w: %s", daemonName, err, strings.TrimSpace(said.String()))
	}
	return c, func() {
		c.Close()
		_ = cmd.Wait() // likewise
	}, nil
}

// socketpair returns a connection and the file at its other end.
func socketpair() (net.Conn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	for _, fd := range pair {
		unix.CloseOnExec(fd)
	}
	mine, theirs := os.NewFile(uintptr(pair[0]), "policies"), os.NewFile(uintptr(pair[1]), "policies")
	defer mine.Close()
	conn, err := net.FileConn(mine)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

// absolute makes a path that a person named one that the daemon finds too; no
// path stays none.
func absolute(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	return filepath.Abs(path)
}

// badConfig prints what is wrong with a configuration, if that is what err is
// about, and returns what the verb ends with.
func (a *app) badConfig(err error) error {
	if len(diagnosticsOf(err)) == 0 {
		return err
	}
	if err := printDiagnostics(a.err, diagnosticsOf(err), a.width()); err != nil {
		return err
	}
	return &exitError{code: exitCheck, err: err}
}

// completeFrom offers what the calls on record say to the shell.
func (a *app) completeFrom(of func(r *record.Record) string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		q := &pb.AuditQuery{Kind: string(record.KindCall), Last: completeRecords}
		if server := cmd.Flag("server"); server != nil {
			q.Server = server.Value.String()
		}
		return a.completeIDs(cmd, func(ctx context.Context, c *client.Client) (found []string, _ error) {
			for r, err := range c.ReadAudit(ctx, q) {
				if err != nil {
					break // what was read until here is offered
				}
				rec, err := record.Parse(r.GetLine())
				if err != nil {
					continue
				}
				// A name that would not be shown as it is can't be completed either.
				if word := of(&rec); word != "" && string(display.Name(word)) == word && !slices.Contains(found, word) {
					found = append(found, word)
				}
			}
			slices.Sort(found)
			return found, nil
		})
	}
}

// completeRecords is how many of the newest records names are taken from.
const completeRecords = 2000

func serverOf(r *record.Record) string { return r.Server }

// subjectOf returns what a record of a method is about.
func subjectOf(method string) func(*record.Record) string {
	return func(r *record.Record) string {
		if r.Method != method {
			return ""
		}
		return r.Tool
	}
}
