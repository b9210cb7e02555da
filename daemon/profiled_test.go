package daemon_test

import (
	"errors"
	"testing"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// Every record has the profile that was in force.
func TestRecordsNameTheProfile(t *testing.T) {
	h := newHome(t, forwardAll+"profile: development\n")
	d, _ := h.start(t)
	a, c := h.attach(t), h.control(t)
	a.list(`{"name":"read"}`)
	a.expect("forward", "", "read")
	a.answer(textOf(longest + 1))
	if _, err := c.Reload(t.Context()); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("reload: %v", err)
	}
	h.write(t, "schema: 1\ngovernance:\n  rulez: []\n")
	d.Reload(t.Context(), "test")
	want := map[record.Kind]bool{
		record.KindLog: true, record.KindPin: true, record.KindMemory: true, record.KindDenied: true, record.KindReload: true, record.KindAttach: true,
	}
	for _, r := range h.records(t, "") {
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
