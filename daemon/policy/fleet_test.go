package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// loadBundle builds the set of a bundle.
func loadBundle(t fataler, floor bool, yaml string, cedar ...string) *Set {
	t.Helper()
	var texts []config.CedarText
	for i, text := range cedar {
		texts = append(texts, config.CedarText{Name: fmt.Sprintf("fleet%d.cedar", i), Text: []byte(text)})
	}
	b, ds := config.ParseBundle("dev.yaml", []byte("schema: 1\n"+yaml), texts, floor)
	if b == nil {
		t.Fatalf("%s\n%v", yaml, ds)
	}
	s, ds := LoadBundle(b)
	if s == nil {
		t.Fatalf("%s\n%v", yaml, ds)
	}
	return s
}

type fataler interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

const aFloor = `governance:
  rules:
    - {match: "drop_*", action: deny, description: "nobody drops a table"}
    - {match: "send_*", action: approve}
    - {match: "pay_*", action: approve, approval: finance}
    - {match: "prod_*", action: policy}
sources:
  - {id: shadow, enabled: false}
approval:
  finance: {require: presence, timeout: 42s, redact_fields: [iban]}
`

const aFloorCedar = `
@id("no-friday") forbid(principal, action, resource == ThoughtGate::Tool::"x/deploy");
permit(principal, action, resource == ThoughtGate::Tool::"x/prod_read");
`

func TestFloor(t *testing.T) {
	own := load(t, `schema: 1
governance:
  rules:
    - {match: "send_mail", action: deny}
    - {match: "send_chat", action: approve, approval: board}
    - {match: "pay_*", action: approve, approval: board}
    - {match: "hold_*", action: approve, approval: board}
approval:
  board: {destination: {type: local}, redact_fields: [password], surfaces: [terminal]}
  default: {destination: {type: local}, surfaces: [desktop]}
`, "")
	in := own.WithFloor(loadBundle(t, true, aFloor, aFloorCedar))
	for tool, want := range map[string]string{
		"read":       "forward; rule; defaults.action",
		"drop_table": `deny; rule; "drop_*" (dev.yaml:4) of the fleet`,
		"send_mail":  `deny; rule; "send_mail" (thoughtgate.yaml:4)`,
		"send_file":  `ask; rule; "send_*" (dev.yaml:5) of the fleet; ask finance`,
		"send_chat":  `ask; rule; "send_*" (dev.yaml:5) of the fleet; ask finance`,
		"pay_bill":   `ask; rule; "pay_*" (dev.yaml:6) of the fleet; ask finance`,
		"hold_on":    `ask; rule; "hold_*" (thoughtgate.yaml:7); ask board`,
		"prod_read":  "forward; rule; defaults.action",
		"prod_write": `deny; permit; "prod_*" (dev.yaml:7) of the fleet`,
		"deploy":     "deny; permit; defaults.action of the fleet; no-friday",
	} {
		if got := inShort(in.Rule(context.Background(), toolCall(t, "x", tool, `{}`), nil)); got != want {
			t.Errorf("%s: got  %s\nwant %s", tool, got, want)
		}
	}
	if got := inShort(in.Rule(context.Background(), toolCall(t, "shadow", "read", `{}`), nil)); !strings.HasPrefix(got, "hidden") {
		t.Errorf("a source that the fleet hides: %s", got)
	}
	if c := toolCall(t, "shadow", "read", `{}`); in.Visible(c, "tools", "read") || !in.Visible(toolCall(t, "x", "read", `{}`), "tools", "read") {
		t.Error("what the fleet hides is visible, or what it does not is hidden")
	}
	if in.Digest() == own.Digest() || !strings.HasPrefix(in.Digest(), own.Digest()+"+") {
		t.Errorf("digest %s", in.Digest())
	}
}

// Who answers, and what is kept from them, is the stricter of what both say.
func TestFloorQuestions(t *testing.T) {
	ask := func(own, floor string) gate.Ruling {
		t.Helper()
		in := load(t, "schema: 1\n"+own, "").WithFloor(loadBundle(t, true, floor))
		r, err := in.Rule(context.Background(), toolCall(t, "x", "pay", `{}`), nil)
		if err != nil || r.Move != gate.Ask {
			t.Fatalf("%s, %v", r.Move, err)
		}
		return r
	}
	const (
		ownLocal  = "governance: {rules: [{match: pay, action: approve}]}\napproval: {mine: {redact_fields: [a], require: any}}"
		ownSlack  = "governance: {rules: [{match: pay, action: approve}]}\napproval: {mine: {destination: {type: slack, channel: C0123, approvers: [U0123]}, require: presence}}"
		floorOwn  = "governance: {rules: [{match: pay, action: approve, undo: true}]}\napproval: {theirs: {redact_fields: [b], require: presence}}"
		floorAny  = "governance: {rules: [{match: pay, action: approve}]}"
		colleague = "governance: {rules: [{match: pay, action: approve}]}\napproval: {theirs: {surfaces: [colleague]}}"
	)
	both := ask(ownLocal, floorOwn)
	if both.Workflow != "theirs" || both.Level != gate.LevelPresence || !both.Undo || !slices.Equal(both.Redact, []string{"a", "b"}) {
		t.Errorf("both ask locally: %+v", both)
	}
	if r := ask(ownLocal, floorAny); r.Workflow != "mine" {
		t.Errorf("a floor that does not say who answers: %s", r.Workflow)
	}
	if r := ask(ownSlack, floorOwn); r.Workflow != "mine" || r.Level != gate.LevelPresence || !r.Undo {
		t.Errorf("the user lets others answer, the floor the user: %+v", r)
	}
	if r := ask(ownSlack, colleague); r.Workflow != "theirs" || r.Level != gate.LevelPresence {
		t.Errorf("the user lets others answer, the floor colleagues: %+v", r)
	}
	if r := ask("governance: {rules: []}\napproval: {mine: {require: presence, surfaces: [desktop]}}", floorAny); r.Workflow != "mine" || r.Level != gate.LevelPresence {
		t.Errorf("only the floor asks, and does not say whom: %+v", r)
	}
	// A grant for the user's rule does not hold once the floor asks, too.
	alone, err := load(t, "schema: 1\n"+ownLocal, "").Rule(context.Background(), toolCall(t, "x", "pay", `{}`), nil)
	if err != nil || alone.Basis == ask(ownLocal, floorAny).Basis {
		t.Errorf("the question has the same basis with a floor: %v", err)
	}
	forwarded := load(t, "schema: 1\n", "").WithFloor(loadBundle(t, true, floorOwn))
	if r, err := forwarded.Rule(context.Background(), toolCall(t, "x", "read", `{}`), nil); err != nil || !slices.Contains(r.Redact, "b") {
		t.Errorf("what the floor redacts of a call that is forwarded: %q, %v", r.Redact, err)
	}
}

// A floor is enforced whatever the user's profile is.
func TestFloorLeavesNoDevelopment(t *testing.T) {
	own := load(t, "schema: 1\nprofile: development\n", "")
	if own.WithFloor(loadBundle(t, true, aFloor, aFloorCedar)).Profile() != gate.Production {
		t.Error("the development profile stays, in which nothing is denied")
	}
}

// A floor that can't be evaluated denies: the policy that fails may be the one that forbids.
func TestFailingFloor(t *testing.T) {
	in := load(t, "schema: 1\n", "").WithFloor(loadBundle(t, true, "", `forbid(principal, action, resource == ThoughtGate::Tool::"x/pay") when { context.arguments has n && context.arguments.n > 3 };`))
	for arguments, want := range map[string]string{`{"n": 4}`: "deny", `{"n": 2}`: "forward", `{"n": "four"}`: "error"} {
		if got := inShort(in.Rule(context.Background(), toolCall(t, "x", "pay", arguments), nil)); !strings.HasPrefix(got, want) {
			t.Errorf("%s: got %s, want %s", arguments, got, want)
		}
	}
}

// A plain permit of a floor is no permission.
func TestFloorRefusesPermits(t *testing.T) {
	for text, want := range map[string]bool{
		"permit(principal, action, resource);":                 false,
		"@approval(\"\") permit(principal, action, resource);": true,
		"forbid(principal, action, resource);":                 true,
	} {
		b, ds := config.ParseBundle("dev.yaml", nil, []config.CedarText{{Name: "a.cedar", Text: []byte("\n" + text)}}, true)
		if b == nil {
			t.Fatal(ds)
		}
		s, ds := LoadBundle(b)
		if (s != nil) != want {
			t.Errorf("%s: %v", text, ds)
		}
		if !want && (len(ds) == 0 || !strings.HasPrefix(ds[0].String(), "a.cedar:2:1: error: the permit loosens")) {
			t.Errorf("%s: %v", text, ds)
		}
	}
}

func TestFull(t *testing.T) {
	own := load(t, `schema: 1
governance:
  rules:
    - {match: "read", action: forward}
    - {match: "send", action: approve, approval: board}
    - {match: "*", action: deny}
approval:
  board: {destination: {type: local}}
  default: {destination: {type: local}, surfaces: [desktop]}
sources:
  - {id: files, shared: true}
  - {id: gone, enabled: false}
`, "")
	expired := false
	in := loadBundle(t, false, "profile: development\ngovernance: {rules: [{match: drop, action: deny}, {match: pay, action: approve}], defaults: {action: forward}}").
		InPlaceOf(own, func() bool { return expired })
	check := func(server string, want map[string]string) {
		t.Helper()
		for tool, want := range want {
			if got := inShort(in.Rule(context.Background(), toolCall(t, server, tool, `{}`), nil)); got != want {
				t.Errorf("expired %v, %s: got  %s\nwant %s", expired, tool, got, want)
			}
		}
	}
	const theirs, asks = "forward; rule; defaults.action (dev.yaml:3) of the fleet", "ask; rule; expired policy of the fleet; ask default"
	check("x", map[string]string{"read": theirs, "send": theirs, "drop": `deny; rule; "drop" (dev.yaml:3) of the fleet`, "pay": `ask; rule; "pay" (dev.yaml:3) of the fleet; ask default`, "y": theirs})
	check("gone", map[string]string{"read": theirs})
	if in.Profile() != gate.Development || !in.Shared("files", nil) {
		t.Errorf("profile %s, shared %v", in.Profile(), in.Shared("files", nil))
	}
	expired = true
	check("x", map[string]string{"read": theirs, "send": asks, "drop": `deny; rule; "drop" (dev.yaml:3) of the fleet`, "pay": `ask; rule; "pay" (dev.yaml:3) of the fleet; ask default`, "y": asks})
	check("gone", map[string]string{"read": asks})
	if in.Profile() != gate.Production {
		t.Errorf("profile %s once it has expired", in.Profile())
	}
	r, err := in.Rule(context.Background(), toolCall(t, "x", "y", `{}`), nil)
	if err != nil || !slices.Equal(r.Surfaces, []string{"desktop"}) || !strings.Contains(r.Reason, `"*" (thoughtgate.yaml:6)`) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A machine whose fleet's policy can't be read forwards nothing.
func TestWithoutFleet(t *testing.T) {
	in := load(t, "schema: 1\ngovernance: {rules: [{match: no, action: deny}]}\n", "").WithoutFleet(errors.New("damaged"))
	for _, tool := range []string{"read", "no"} {
		if got := inShort(in.Rule(context.Background(), toolCall(t, "x", tool, `{}`), nil)); got != "error: damaged" {
			t.Errorf("%s: %s", tool, got)
		}
	}
	if in.Profile() != gate.Production {
		t.Error("in the development profile everything would be forwarded")
	}
}

func TestExplainInFleet(t *testing.T) {
	own := load(t, "schema: 1\ngovernance: {rules: [{match: send, action: approve}]}\n", "")
	in := own.WithFloor(loadBundle(t, true, aFloor, aFloorCedar))
	explain := func(in *Set, tool string) gate.Explained {
		return in.Explain(context.Background(), toolCall(t, "x", tool, `{}`), nil)
	}
	e := explain(in, "drop_table")
	if len(e.Cited) == 0 || !e.Cited[0].Fleet || e.Cited[0].File != "dev.yaml" || e.Cited[0].Line != 4 || e.Ruling.Move != gate.Deny {
		t.Errorf("%+v", e)
	}
	if len(e.Steps) == 0 || !strings.Contains(e.Steps[0].Change, "without the fleet's rule") || e.Steps[0].Move != gate.Forward {
		t.Errorf("%+v", e.Steps)
	}
	if e := explain(in, "send"); len(e.Cited) != 1 || e.Cited[0].Fleet || e.Ruling.Move != gate.Ask {
		t.Errorf("%+v", e)
	}
	if e := explain(in, "deploy"); !slices.ContainsFunc(e.Cited, func(c gate.Cited) bool { return c.Fleet && c.Kind == "forbid" && c.Name == "no-friday" }) {
		t.Errorf("%+v", e.Cited)
	}
	full := loadBundle(t, false, "governance: {defaults: {action: forward}}").InPlaceOf(own, func() bool { return true })
	if e := explain(full, "send"); e.Ruling.Move != gate.Ask || len(e.Steps) == 0 || !strings.Contains(e.Steps[0].Change, "confirmation") {
		t.Errorf("%+v", e)
	}
	if e := explain(own.WithoutFleet(errors.New("damaged")), "read"); e.Err == nil || len(e.Steps) == 0 {
		t.Errorf("%+v", e)
	}
	if d := in.Describe(); d.Fleet != "floor" || d.Rules != 5 || d.Source != own.Describe().Source || d.Digest != in.Digest() {
		t.Errorf("%+v", d)
	}
	if d := full.Describe(); d.Fleet != "full" || d.Source != own.Describe().Source {
		t.Errorf("%+v", d)
	}
	if d := in.Detail(); !d.Rules[0].Fleet || d.Rules[4].Fleet || len(d.Rules) != 7 {
		t.Errorf("%+v", d.Rules)
	}
}

// drawFloor draws the rules of a floor, which have no action forward.
func drawFloor(t *rapid.T) string {
	text := drawProject(t)
	return strings.ReplaceAll(text, "action: forward", "action: approve")
}

// The promise of a floor: with it, no verdict is looser than the user's own or than the floor's,
// and nothing becomes visible. The promise of an expired full policy: it forwards only what the
// user's own does.
func TestFleetsOnlyTighten(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		own := drawUser(rt)
		yaml := strings.ReplaceAll(drawFloor(rt), "asks: forward", "asks: deny")
		floor := loadBundle(rt, true, yaml)
		in := own.WithFloor(floor)
		c := drawCall(rt, t)
		facts := []gate.Fact{{Name: oneOf(rt, "fact", "secret", "sends", "outside")}}
		mine, theirs := refused(own.Rule(context.Background(), c, facts)), refused(floor.Rule(context.Background(), c, facts))
		with, err := in.Rule(context.Background(), c, facts)
		if got := refused(with, err); got != max(mine, theirs) {
			rt.Fatalf("floor:\n%s\ncall %s: own %d, floor %d, both %d: %s", yaml, c.Line, mine, theirs, got, inShort(with, err))
		}
		kind, name := oneOf(rt, "kind", "tools", "resources", "prompts"), oneOf(rt, "name", "read", "x", "memo:1", "file:///etc/x")
		if in.Visible(c, kind, name) != (own.Visible(c, kind, name) && floor.Visible(c, kind, name)) {
			rt.Fatalf("floor:\n%s\n%s %s", yaml, kind, name)
		}
		expired := rapid.Bool().Draw(rt, "expired")
		full := loadBundle(rt, false, drawProject(rt))
		alone := refused(full.Rule(context.Background(), c, facts))
		want := alone
		if expired && alone == 0 {
			want = min(mine, 1)
		}
		if got := refused(full.InPlaceOf(own, func() bool { return expired }).Rule(context.Background(), c, facts)); got != want {
			rt.Fatalf("full, expired %v: alone %d, own %d, got %d", expired, alone, mine, got)
		}
	})
}
