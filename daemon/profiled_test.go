package daemon_test

import (
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Whatever a record is about, it says which profile was in force.
func TestRecordsNameTheProfile(t *testing.T) {
	h := newHome(t, forwardAll+"profile: development\n")
	d, _ := h.start(t)
	b, c := h.serveFake(t, attachment, false, "fake-server"), h.control(t)
	b.list()
	tell(t, b.shim, &pb.Observe{Method: "tools/call", Line: []byte(`{"text":"x"}`), Missing: 4711, Echo: 1})
	if _, err := b.shim.Recv(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Reload(t.Context()); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("reload: %v", err)
	}
	h.write(t, "schema: 1\ngovernance:\n  rulez: []\n")
	d.Reload(t.Context(), "test")
	want := map[record.Kind]bool{
		record.KindLog: true, record.KindPin: true, record.KindMemory: true, record.KindDenied: true, record.KindReload: true, record.KindAttach: true,
	}
	for r, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		line, err := record.Parse(r.GetLine())
		if err != nil {
			t.Fatal(err)
		}
		delete(want, line.Kind)
		if line.Profile != "development" {
			t.Errorf("a record names the profile %q: %s", line.Profile, r.GetLine())
		}
	}
	if len(want) > 0 {
		t.Errorf("no record of the kinds %v", want)
	}
}
