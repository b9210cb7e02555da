package inbox

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// undo shows what it would do, with nothing that a terminal would obey, and does it only after a
// yes.
func TestUndoAsks(t *testing.T) {
	for answer, restores := range map[string]int{"y\n": 1, "n\n": 0, "\n": 0, "": 0} {
		f := consoletest.Start(t)
		f.Plan = &pb.UndoPlan{
			Copy:  &pb.Copy{Id: "A-17", Copy: "20261120T110000-01234567", Root: "/home/ann/shop", Files: 3, Made: timestamppb.New(consoletest.Noon)},
			Write: []string{"notes/a\x1b[2J.txt"}, Writes: 1, Replace: []string{"notes/b.txt"}, Replaces: 1, Same: 1, Digest: "d", RootReplaced: true,
		}
		c := consoletest.New(f.Socket, UndoCommand)
		c.App.In = strings.NewReader(answer)
		code := c.Run(t, "undo", "a-17")
		if len(f.Restored) != restores || (code == 0) != (restores == 1) || !strings.Contains(c.Err.String(), "Bring them back? [y/N]") {
			t.Errorf("%q: exit %d, %d restores: %s", answer, code, len(f.Restored), c.Err.String())
		}
		if text := c.Err.String(); strings.Contains(text, "\x1b") || !strings.Contains(text, "notes/b.txt") || !strings.Contains(text, "another folder") {
			t.Errorf("it shows %q", text)
		}
		if restores == 0 {
			continue
		}
		if r := f.Restored[0]; r.GetId() != "20261120T110000-01234567" || r.GetDigest() != "d" || r.GetSurface() != "terminal" {
			t.Errorf("it restores %v", r)
		}
		if !strings.Contains(c.Out.String(), "notes/b.txt had changed; that is now notes/b.txt.before-undo-1") {
			t.Errorf("it says %q", c.Out.String())
		}
	}
}
