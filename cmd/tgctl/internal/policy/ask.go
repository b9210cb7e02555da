package policy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// policies connects to a server for policy queries: the daemon, or, if none is running, a
// thoughtgated process that lives until done is called. The caller must call done.
func (a *app) policies(ctx context.Context) (c *client.Client, done func(), err error) {
	c, err = a.DialRunning(ctx)
	if err == nil {
		return c, func() { c.Close() }, nil
	}
	if !errors.Is(err, client.ErrNotRunning) {
		return nil, nil, err
	}
	return Offline(ctx, a.App)
}

// Offline connects to a thoughtgated process that answers policy queries, opens no socket and lives
// until done is called. The caller must call done.
func Offline(ctx context.Context, a *connect.App) (c *client.Client, done func(), err error) {
	program, err := a.Sibling(connect.DaemonName)
	if err != nil {
		return nil, nil, err
	}
	return policiesOf(ctx, program, a.Environ())
}

// policiesOf starts program, a thoughtgated, with --policies and connects to it over a private
// socket pair.
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
		return nil, nil, fmt.Errorf("start %s: %w", connect.DaemonName, err)
	}
	theirs.Close() // otherwise c would not see the program close its end
	c, err := client.Over(ctx, ours)
	if err != nil {
		// The program exits with its socket. Its output says more than its exit code.
		_ = cmd.Wait()
		return nil, nil, fmt.Errorf("%s --policies: %w: %s", connect.DaemonName, err, strings.TrimSpace(said.String()))
	}
	return c, func() {
		c.Close()
		_ = cmd.Wait() // the exit code says nothing
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

// badConfig is [BadConfig].
func (a *app) badConfig(err error) error { return BadConfig(a.App, err) }

// BadConfig prints the diagnostics in err, if it has any, and returns the error to exit with.
func BadConfig(a *connect.App, err error) error {
	if len(ui.DiagnosticsOf(err)) == 0 {
		return err
	}
	if err := ui.PrintDiagnostics(a.Err, ui.DiagnosticsOf(err), a.Width()); err != nil {
		return err
	}
	return &ui.ExitError{Code: ui.ExitCheck, Err: err}
}

// completeFrom returns a completion function that offers values from the recorded calls.
func (a *app) completeFrom(of func(r *record.Record) string) func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		q := &pb.AuditQuery{Kind: string(record.KindCall), Last: completeRecords}
		if server := cmd.Flag("server"); server != nil {
			q.Server = server.Value.String()
		}
		return a.CompleteIDs(cmd, func(ctx context.Context, c *client.Client) (found []string, _ error) {
			for r, err := range c.ReadAudit(ctx, q) {
				if err != nil {
					break // offer what was read so far
				}
				rec, err := record.Parse(r.GetLine())
				if err != nil {
					continue
				}
				// A name that is displayed escaped cannot be completed either.
				if word := of(&rec); word != "" && string(display.Name(word)) == word && !slices.Contains(found, word) {
					found = append(found, word)
				}
			}
			slices.Sort(found)
			return found, nil
		})
	}
}

// completeRecords is how many of the newest records are read for completion.
const completeRecords = 2000

func serverOf(r *record.Record) string { return r.Server }

// subjectOf returns a function that returns a record's tool, URI or prompt if the record is of
// the given method.
func subjectOf(method string) func(*record.Record) string {
	return func(r *record.Record) string {
		if r.Method != method {
			return ""
		}
		return r.Tool
	}
}
