package ext

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/connect"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/pbjson"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// installing is one run of ext install.
type installing struct {
	*app
	yes, dryRun bool
}

// installJSON is what `ext install --json` prints in addition to the daemon's response.
type installJSON struct {
	From      string        `json:"from"`
	Changes   []extChange   `json:"changes"`
	Extension pbjson.Object `json:"extension"` // as it runs now; null if nothing was installed
}

func (a *app) installCmd() *cobra.Command {
	i := &installing{app: a}
	cmd := &cobra.Command{
		Use:   "install DIR|NAME [flags]",
		Short: "Install an extension, or another version of one",
		Long: `Install the extension in a folder, or an included extension by its name. What it
will be able to do is shown first. If a version is already installed, the
changes are shown too, with a + before what the new version may do or see in
addition. Nothing is done until you agree, with y at the terminal or --yes.

The folder is copied, and only what you reviewed runs: if the copy is changed
later, it does not run until you install it again. The extension starts at once
and replaces an installed version.

Agents and the processes they start cannot install extensions.`,
		Example: `  $ tgctl ext install scrubber
  $ tgctl ext install ./my-extension
  $ tgctl ext install --dry-run ./my-extension`,
		Args:              ui.Exactly("DIR or NAME"),
		ValidArgsFunction: connect.FirstAlone(a.completeShipped),
		RunE: func(cmd *cobra.Command, args []string) error {
			return i.run(cmd.Context(), args[0])
		},
	}
	cmd.Flags().BoolVar(&i.yes, "yes", false, "agree without being asked")
	cmd.Flags().BoolVar(&i.dryRun, "dry-run", false, "show what would be installed, but install nothing")
	return a.WithJSON(cmd, pbjson.Object{
		Message: &pb.LookExtensionResponse{}, More: installJSON{Extension: extensionJSON(&pb.Extension{})},
	}, &pb.Diagnostic{})
}

func (i *installing) run(ctx context.Context, named string) error {
	dir, err := i.extensionDir(named)
	if err != nil {
		return err
	}
	if !i.yes && !i.dryRun && !(i.InTerminal && i.ErrTerminal) {
		return ui.NoTerminal("ext install", "Review with --dry-run, and agree with --yes.")
	}
	c, err := i.Dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	look, err := c.LookExtension(ctx, dir)
	if err != nil {
		return i.unfit(dir, err)
	}
	more := installJSON{From: dir, Changes: []extChange{}}
	if was := look.GetInstalled(); was != nil {
		more.Changes = changes(was.GetManifest(), look.GetManifest())
	}
	if !i.AsJSON {
		if err := ui.PrintDiagnostics(i.Err, look.GetWarnings(), i.ErrColumns); err != nil {
			return err
		}
	}
	same := look.GetInstalled().GetDigest() == look.GetDigest() && !look.GetInstalled().GetChanged()
	switch {
	case same && !i.dryRun:
		i.PrintMessage("%s is already installed and has not changed; nothing was done.", display.Name(look.GetManifest().GetName()))
		more.Extension = extensionJSON(look.GetInstalled())
		return i.result(look, more, nil)
	case i.dryRun && i.AsJSON:
		return i.result(look, more, nil)
	}
	if err := ui.WriteLines(i.Err, i.proposal(dir, look, more.Changes).Lines(i.ErrColumns)); err != nil {
		return err
	}
	if i.dryRun {
		return nil
	}
	if !i.yes {
		if err := i.AskYes(ctx, "Install it?"); err != nil {
			return err
		}
	}
	e, err := c.InstallExtension(ctx, &pb.InstallExtensionRequest{Dir: dir, Digest: look.GetDigest(), Surface: i.Surface()})
	if err != nil {
		return ui.WithHint(err, hints...)
	}
	if e, err = i.settled(ctx, c, e); err != nil {
		return ui.WithHint(err, hints...)
	}
	more.Extension = extensionJSON(e)
	return i.result(look, more, e)
}

// How long an extension may take to start before its state is reported as it is, and the
// interval at which it is polled. The daemon gives it 10 s to greet, several times.
const (
	settleFor   = 15 * time.Second
	settleEvery = 50 * time.Millisecond
)

// settled waits until an extension runs or has failed.
func (i *installing) settled(ctx context.Context, c *client.Client, e *pb.Extension) (*pb.Extension, error) {
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	for {
		switch e.GetProcess().GetState() {
		case "starting", "restarting":
		default:
			return e, nil
		}
		select {
		case <-time.After(settleEvery):
		case <-ctx.Done():
			return e, nil // its state is reported as it is
		}
		now, err := c.GetExtension(ctx, e.GetManifest().GetName())
		if ctx.Err() != nil {
			return e, nil
		}
		if err != nil {
			return nil, err
		}
		e = now
	}
}

// result prints what was done.
func (i *installing) result(look *pb.LookExtensionResponse, more installJSON, e *pb.Extension) error {
	failed := error(nil)
	if e.GetProcess().GetState() == "failed" {
		failed = &ui.ExitError{Code: ui.ExitFailed}
	}
	if i.AsJSON {
		return errors.Join(i.PrintJSON(pbjson.Object{Message: look, More: more}), failed)
	}
	if e == nil {
		return nil
	}
	m := e.GetManifest()
	_, err := fmt.Fprintf(i.Out, "installed %s %s: %s\n", display.Name(m.GetName()), display.Name(m.GetVersion()), ui.OrDash(e.GetProcess().GetState()))
	for _, text := range ui.NonEmpty(display.Text(e.GetProcess().GetError()), fixOfExtension(e)) {
		i.PrintMessage("%s", text)
	}
	return errors.Join(err, failed)
}

// unfit reports why a directory can't be installed, in the way of policy check.
func (i *installing) unfit(dir string, err error) error {
	problems := ui.DiagnosticsOf(err)
	if len(problems) == 0 {
		return ui.WithHint(err, hints...)
	}
	if i.AsJSON {
		if err := ui.PrintAllJSON(i.app, problems); err != nil {
			return err
		}
	} else if err := ui.PrintDiagnostics(i.Err, problems, i.ErrColumns); err != nil {
		return err
	}
	return &ui.ExitError{Code: ui.ExitCheck, Err: fmt.Errorf("install %s: its manifest has %s", display.Text(dir), ui.Plural(ui.CountErrors(problems), "error", "errors"))}
}

// proposal lists what a person agrees to.
func (i *installing) proposal(dir string, look *pb.LookExtensionResponse, changes []extChange) *ui.Sheet {
	m, s := look.GetManifest(), &ui.Sheet{}
	s.Add("extension", display.Name(m.GetName())+ui.Spaced(display.Name(m.GetVersion())))
	s.Add("", display.Text(m.GetDescription()))
	s.Add("from", display.Text(dir))
	s.Add("", ui.Plural(look.GetFiles(), "file", "files")+", "+display.Size(look.GetBytes())+", digest "+ui.ShortDigest(look.GetDigest()))
	manifestWords(s, m)
	for _, key := range slices.Sorted(maps.Keys(m.GetConfig())) {
		s.Add("config", display.Name(key)+" = "+shownValue(m.GetConfig()[key]))
	}
	s.Add("warning", ui.Choose(look.GetProgram() == "", "program "+display.Name(append(m.GetCommand(), "")[0])+" was not found, so the extension will not start", ""))
	s.Add("note", "it runs as you and can do everything that you can; the above limits only what it may do in ThoughtGate")
	was := look.GetInstalled()
	if was == nil {
		return s
	}
	s.Add("replaces", display.Name(was.GetManifest().GetName())+ui.Spaced(display.Name(was.GetManifest().GetVersion()))+", which is installed")
	s.Add("", ui.Choose(was.GetChanged(), "and was changed after you installed it", ""))
	s.Add("", ui.Map(changes, func(c extChange) display.Safe { return ui.Choose(c.Wider, "+ ", "- ") + display.Safe(c.What) })...)
	s.Add("", ui.Choose(len(changes) == 0, "no change in what it may do and see", ""))
	return s
}
