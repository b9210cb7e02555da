package gate

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// told is an attachment whose agent collects the list notifications that it gets.
type told struct {
	h     *fixture
	pins  *shelf
	a     *Attachment
	seq   uint64
	lines []string
}

func newTold(t *testing.T) *told {
	h := newFixture()
	h.hidden = map[string]bool{}
	d := &told{h: h, pins: withPins(h)}
	d.a = h.gate.Attach(context.Background(), shimX, nil)
	d.a.Bind(func(Verdict) {})
	d.a.DeliverTo(func(line []byte) { d.lines = append(d.lines, string(line)) })
	t.Cleanup(func() { d.a.Close(true) })
	return d
}

// initializes has a server of the legacy era declare its capabilities.
func (d *told) initializes(capabilities string) {
	d.a.RecordMessage(context.Background(), wire.FromServer, "initialize",
		[]byte(`{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":`+capabilities+`}}`))
}

// lists has the server answer method with elements of these names.
func (d *told) lists(method, member, by string, names ...string) {
	var elements []string
	for _, name := range names {
		elements = append(elements, fmt.Sprintf(`{%q:%q}`, by, name))
	}
	d.seq++
	d.a.Submit(Submission{Seq: d.seq, Side: wire.FromServer, Answers: method,
		Line: fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{%q:[%s]}}`, member, strings.Join(elements, ","))})
}

// listens has the agent subscribe with that id, and the server acknowledge it.
func (d *told) listens(id, mark, granted string) (seq uint64) {
	d.seq++
	d.a.Submit(Submission{Seq: d.seq, Side: wire.FromAgent,
		Line: []byte(`{"jsonrpc":"2.0","id":` + id + `,"method":"subscriptions/listen","params":{` + modernMeta + `,"notifications":{"toolsListChanged":true}}}`)})
	d.a.ObserveMessage(wire.FromServer, "notifications/subscriptions/acknowledged",
		[]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`+mark+`},"notifications":{`+granted+`}}}`), 0)
	return d.seq
}

// refreshed returns the notifications that a refresh sends, in short form.
func (d *told) refreshed() string {
	d.lines = nil
	d.a.Refresh()
	short := strings.NewReplacer(`{"jsonrpc":"2.0","method":"notifications/`, "", `/list_changed"`, "", `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":`, " ", "}", "")
	return short.Replace(strings.Join(d.lines, ", "))
}

func TestAgentsAreToldOfLists(t *testing.T) {
	const all = `{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true}}`
	for _, tt := range []struct {
		name string
		play func(d *told)
		want string
	}{
		{"one tool is hidden", func(d *told) { d.initializes(all); d.h.hidden["a"] = true }, "tools"},
		{"one tool is shown again", func(d *told) { d.initializes(all); delete(d.h.hidden, "secret") }, "tools"},
		{"a tool that the server does not have", func(d *told) { d.initializes(all); d.h.hidden["other"] = true }, ""},
		{"nothing", func(d *told) { d.initializes(all) }, ""},
		{"of everything", func(d *told) {
			d.initializes(all)
			d.h.hidden["a"], d.h.hidden["p"], d.h.hidden["r://x"] = true, true, true
		}, "tools, prompts, resources"},
		{"a template", func(d *told) { d.initializes(all); d.h.hidden["r://{x}"] = true }, "resources"},
		{"a definition is held", func(d *told) { d.initializes(all); d.pins.held["a"] = "changed" }, "tools"},
		{"a definition is accepted", func(d *told) {
			d.initializes(all)
			d.pins.held["a"] = "changed"
			d.lists("tools/list", "tools", "name", "a")
			delete(d.pins.held, "a")
		}, "tools"},
		{"it was listed so since", func(d *told) {
			d.initializes(all)
			d.h.hidden["a"] = true
			d.lists("tools/list", "tools", "name", "a", "b")
		}, ""},
		{"production comes back", func(d *told) {
			d.initializes(all)
			d.h.profile = Development
			d.lists("tools/list", "tools", "name", "secret")
			d.h.profile = Production
		}, "tools"},
		{"development comes", func(d *told) { d.initializes(all); d.h.profile = Development }, "tools"},
		{"the server tells of prompts only", func(d *told) {
			d.initializes(`{"tools":{"listChanged":false},"prompts":{"listChanged":true}}`)
			d.h.hidden["a"] = true
		}, ""},
		{"the server says nothing of it", func(d *told) { d.initializes(`{"tools":{}}`); d.h.hidden["a"] = true }, ""},
		{"no handshake", func(d *told) { d.h.hidden["a"] = true }, ""},

		{"a subscription", func(d *told) { d.listens(`7`, `7`, `"toolsListChanged":true`); d.h.hidden["a"] = true }, "tools 7"},
		{"its id as a text", func(d *told) { d.listens(`7`, `"7"`, `"toolsListChanged":true`); d.h.hidden["a"] = true }, `tools "7"`},
		{"two, of which one grants it", func(d *told) {
			d.listens(`"x"`, `"x"`, `"toolsListChanged":true`)
			d.listens(`"y"`, `"y"`, `"promptsListChanged":true`)
			d.h.hidden["a"] = true
		}, `tools "x"`},
		{"of two things", func(d *told) {
			d.listens(`1`, `1`, `"toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true`)
			d.h.hidden["a"], d.h.hidden["p"] = true, true
		}, `tools 1, prompts 1`},
		{"not granted", func(d *told) { d.listens(`7`, `7`, `"toolsListChanged":false`); d.h.hidden["a"] = true }, ""},
		{"acknowledged is another one", func(d *told) { d.listens(`7`, `8`, `"toolsListChanged":true`); d.h.hidden["a"] = true }, ""},
		{"answered", func(d *told) {
			seq := d.listens(`7`, `7`, `"toolsListChanged":true`)
			d.a.RecordOutcome(context.Background(), seq, "ok")
			d.h.hidden["a"] = true
		}, ""},
		{"cancelled by the agent", func(d *told) {
			seq := d.listens(`7`, `7`, `"toolsListChanged":true`)
			d.a.RecordOutcome(context.Background(), seq, "cancelled")
			d.h.hidden["a"] = true
		}, ""},
		{"ended by the server", func(d *told) {
			d.listens(`7`, `7`, `"toolsListChanged":true`)
			d.a.RecordMessage(context.Background(), wire.FromServer, "notifications/cancelled", []byte(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`))
			d.h.hidden["a"] = true
		}, ""},
		{"more is listed than is remembered, under another set", func(d *told) {
			d.initializes(all)
			var many []string
			for i := range mostShown {
				many = append(many, fmt.Sprint("t", i))
			}
			d.lists("prompts/list", "prompts", "name", many...)
			d.a.Refresh()
			d.h.digest = "set-2"
		}, "prompts"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newTold(t)
			d.h.hidden["secret"] = true
			d.lists("tools/list", "tools", "name", "a", "b", "secret")
			d.lists("prompts/list", "prompts", "name", "p")
			d.lists("resources/list", "resources", "uri", "r://x")
			d.lists("resources/templates/list", "resourceTemplates", "uriTemplate", "r://{x}")
			tt.play(d)
			before := len(d.h.records)
			if got := d.refreshed(); got != tt.want {
				t.Errorf("told of %q, want %q", got, tt.want)
			}
			if onRecord := len(d.h.records) > before; onRecord != (tt.want != "") {
				t.Errorf("on record: %v", onRecord)
			}
			if got := d.refreshed(); got != "" {
				t.Errorf("told again of %q", got)
			}
		})
	}
}

// Without a receiver nothing is lost: the agent is notified when there is one again.
func TestListsWaitForTheShim(t *testing.T) {
	d := newTold(t)
	d.initializes(`{"tools":{"listChanged":true}}`)
	d.lists("tools/list", "tools", "name", "a")
	d.a.DeliverTo(nil)
	d.h.hidden["a"] = true
	d.a.Refresh()
	d.a.DeliverTo(func(line []byte) { d.lines = append(d.lines, string(line)) })
	if got := d.refreshed(); got != "tools" {
		t.Errorf("told of %q", got)
	}
}

// The number of subscriptions is limited.
func TestListensAreBounded(t *testing.T) {
	d := newTold(t)
	d.lists("tools/list", "tools", "name", "a")
	for i := range 3 * mostListens {
		d.listens(fmt.Sprint(i), fmt.Sprint(i), `"toolsListChanged":true`)
	}
	d.h.hidden["a"] = true
	d.refreshed()
	if len(d.lines) != mostListens {
		t.Errorf("told %d times, want %d", len(d.lines), mostListens)
	}
}
