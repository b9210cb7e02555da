package inbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// maxEditBytes limits what is read back from an editor, in bytes. It is the longest
// possible message.
const maxEditBytes = 10 << 20

// editArguments lets a person change the arguments of a call in an editor that draws on
// screen, and returns them on one line. Numbers, strings and the order of members stay as
// written. It fails if nothing was changed: to close the editor is not to approve.
func (a *app) editArguments(ctx context.Context, q *pb.Approval, screen io.Writer) ([]byte, error) {
	before := argumentsIn(q.GetArguments())
	if before == nil {
		return nil, errors.New("the call has no arguments to edit")
	}
	editor := cmp.Or(a.Getenv("VISUAL"), a.Getenv("EDITOR"))
	if editor == "" {
		return nil, errors.New("no editor is configured; set VISUAL or EDITOR")
	}
	// The arguments may be secret: the file is in a directory that only its owner can
	// read, and in memory if there is a runtime directory.
	dir, err := os.MkdirTemp(a.Getenv("XDG_RUNTIME_DIR"), "tgctl-edit-")
	if err != nil {
		return nil, fmt.Errorf("create a folder for the editor: %w", err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "arguments.json")
	var text bytes.Buffer
	if err := json.Indent(&text, before, "", "  "); err != nil {
		return nil, fmt.Errorf("format the arguments: %w", err)
	}
	text.WriteByte('\n')
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	// The variable may hold flags, as in "code --wait", so a shell parses it. The shell
	// must survive a signal that interrupts the editor.
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", "trap : INT; "+editor+` "$@"`, "editor", path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, screen, screen
	defer a.LeaveInterrupts()()
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("run the editor %q: %w", editor, err)
	}
	return changed(path, before)
}

// changed reads the file at path after an editor has run. It fails if the file does not
// differ from before in more than white space.
func changed(path string, before []byte) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the edited arguments: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxEditBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the edited arguments: %w", err)
	case len(text) > maxEditBytes:
		return nil, errors.New("the edited arguments are longer than a message may be; nothing was answered")
	}
	var after, was bytes.Buffer
	if err := json.Compact(&after, text); err != nil {
		return nil, fmt.Errorf("the edited arguments are not valid JSON (%w); nothing was answered", err)
	}
	if err := json.Compact(&was, before); err != nil {
		return nil, err
	}
	if bytes.Equal(after.Bytes(), was.Bytes()) {
		return nil, errors.New("the arguments were not changed; nothing was answered")
	}
	return after.Bytes(), nil
}
