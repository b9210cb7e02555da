package pin

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// page makes the server return one page of its tools; another page follows unless it is the last.
func (s *shim) page(t *testing.T, last bool, tools ...gate.Offered) {
	t.Helper()
	c := s.from("tools/list", "")
	c.Side, c.Line = wire.FromServer, []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[],"nextCursor":"c"}}`)
	if last {
		c.Line = []byte(`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`)
	}
	if err := wire.Read(c.Line, wire.FromServer, &c.Envelope); err != nil {
		t.Fatal(err)
	}
	if _, err := s.d.Listed(context.Background(), c, tools); err != nil {
		t.Fatal(err)
	}
}

func TestUnlisted(t *testing.T) {
	for _, mode := range []config.PinMode{config.PinHold, config.PinWarn, config.PinOff} {
		t.Run(string(mode), func(t *testing.T) {
			d := newDesk(t, mode)
			s := d.shim("a1", "files", "l1")
			unlisted := func(tool string) bool { return slices.Contains(s.facts(tool), "unlisted") }
			if unlisted("other") {
				t.Error("before any list")
			}
			s.page(t, false, echo)
			if unlisted("other") {
				t.Error("before the last page")
			}
			s.page(t, true, read, gate.Offered{Name: "secret_tool", Hidden: true})
			for tool, want := range map[string]bool{"echo": false, "read_file": false, "secret_tool": false, "other": true, "read_files": true, "": true} {
				if got := unlisted(tool); got != want {
					t.Errorf("%q: got %v, want %v", tool, got, want)
				}
			}
			if mode != config.PinOff {
				d.restart(t)
				if !unlisted("other") || unlisted("echo") || unlisted("secret_tool") {
					t.Error("a new daemon does not know what was listed")
				}
			}
			// A notification that the list changed, or a new list, does not undo anything.
			s.d.Relist("a1", "tools/list")
			if !unlisted("other") || unlisted("echo") {
				t.Error("after the server said that its list is another one")
			}
			s.page(t, true, read)
			if unlisted("echo") {
				t.Error("what was listed once is not any more")
			}
			// Another attachment of the same kind has its own list.
			if other := d.shim("a2", "files", "l1"); slices.Contains(other.facts("other"), "unlisted") {
				t.Error("in another attachment, which has shown nothing")
			}
		})
	}
}

func TestNamesThatDifferInCase(t *testing.T) {
	for _, mode := range []config.PinMode{config.PinHold, config.PinOff} {
		d := newDesk(t, mode)
		s := d.shim("a1", "files", "l1")
		s.mustPass(t, "READ_FILE")
		s.page(t, false, read, tool("kelvin", "k"), tool("pass_file", "p"), tool("gr\u00f6\u00dfe", "g"), gate.Offered{Name: "drop_table", Hidden: true})
		for _, name := range []string{"Read_File", "READ_FILE", "read_filE", "\u212aelvin", "pa\u017f\u017f_file", "pa\u00df_file", "pa\u1e9e_FILE", "pass_\ufb01le",
			"read_f\u0131le", "READ_F\u0130LE", "\uff52ead_file", "gr\u00f6sse", "GRO\u0308SSE"} {
			p := d.Of(s.from("tools/call", name))
			if !p.Final || !strings.Contains(p.Held, "its server lists no tool with this name, but ") {
				t.Errorf("%q: got %+v", name, p)
			}
		}
		if p := d.Of(s.from("tools/call", "Drop_Table")); !p.Final || strings.Contains(p.Held, "drop_table") {
			t.Errorf("of what is hidden: got %+v", p)
		}
		for _, name := range []string{"read_file", "kelvin", "drop_table", "read-file", "read_file2"} {
			s.mustPass(t, name)
		}
		// What other attachments of the same launch were shown is known before this one lists.
		other := d.shim("a2", "files", "l1")
		if may, held := other.may("Read_File"); may != (mode == config.PinOff) || strings.Contains(held, "read_file") {
			t.Errorf("another attachment, mode %s: may %v, %q", mode, may, held)
		}
		s.listAs(t, "prompts/list", gate.Offered{Name: "greet", Raw: []byte(`{"name":"greet"}`)})
		if p := d.Of(s.from("prompts/get", "Greet")); !p.Final {
			t.Errorf("a prompt: got %+v", p)
		}
	}
}
