package slack

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	api "github.com/slack-go/slack"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/test/golden"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// laid returns a card of q for the workflow ops.
func laid(q *pb.Approval) *card {
	flow := &pb.PolicyWorkflow{Name: "ops", Surfaces: []string{"slack"}, Slack: &pb.SlackDestination{
		Channel: "ops", Mention: []string{"here", "S0OPS", "U0ANN"}, Approvers: []string{"U0ANN"},
	}}
	return newCard(q, flow)
}

func readable(t *testing.T, p *post) string {
	t.Helper()
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(map[string]any{"text": p.text, "blocks": p.blocks}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMessages(t *testing.T) {
	decided := timestamppb.New(time.Date(2026, 11, 20, 11, 5, 0, 0, time.UTC))
	for _, test := range []struct {
		name   string
		change func(*card)
	}{
		{"open", nil},
		{"hostile", func(c *card) {
			c.q.Tool = "rm`*_~<!channel>\u202egnp"
			c.q.Reason = "<https://evil.example|click> &amp; @here :white_check_mark: `x` *done* … <@U0ANN> http://evil.example"
			c.q.Rule = "```\n> quote"
			c.q.Arguments = []byte("{\"a\":\"```\\n<!everyone> \\u202e`\",\"url\":\"https://evil.example/<x>&y\"}")
		}},
		{"long", func(c *card) {
			c.q.Arguments = []byte(`{"content":"` + strings.Repeat("all work and no play ", 2000) + `"}`)
			c.q.Facts = nil
			for range 40 {
				c.q.Facts = append(c.q.Facts, "secret: "+strings.Repeat("x", 300))
			}
		}},
		{"presence", func(c *card) { c.flow.Require = levelPresence }},
		{"presence-by-risk", func(c *card) { c.q.Level = "presence" }},
		{"no-yes", func(c *card) { c.flow.Surfaces = []string{"terminal"} }},
		{"thread", func(c *card) { c.Thread = "1.2" }},
		{"unsure", func(c *card) { c.unsure = true }},
		{"plain", func(c *card) { c.plain = true }},
		{"approved", func(c *card) {
			c.q.State, c.q.Decided, c.q.Approver, c.q.Surface, c.q.Arguments, c.q.Decider = approved, decided, "U0ANN", "slack", nil, "pid 7 tgctl"
			c.q.Good = timestamppb.New(time.Date(2026, 11, 20, 11, 15, 0, 0, time.UTC))
		}},
		{"denied", func(c *card) {
			c.q.State, c.q.Decided, c.q.Surface, c.q.Arguments, c.q.Decider, c.q.Note = rejected, decided, "terminal", nil, "pid 7 /usr/bin/tgctl on pts/3", "use <staging>"
		}},
		{"expired", func(c *card) { c.q.State, c.q.Decided, c.q.Arguments = expired, decided, nil }},
		{"withdrawn", func(c *card) {
			c.q.State, c.q.Decided, c.q.Note = pb.ApprovalState_APPROVAL_STATE_WITHDRAWN, decided, "the agent took the call back"
		}},
		{"gone", func(c *card) { c.gone = true }},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := laid(asked("A-17"))
			if test.change != nil {
				test.change(c)
			}
			p := c.post(sheet(c.q))
			golden.Compare(t, filepath.Join("testdata", test.name+".json"), readable(t, p))
			within(t, p)
		})
	}
	golden.Compare(t, filepath.Join("testdata", "burst.json"), readable(t, head(23, laid(asked("A-17")).flow)))
}

// within checks that a message keeps Slack's limits, and that Slack interprets only the
// intended markup.
func within(t *testing.T, p *post) {
	t.Helper()
	if len(p.blocks) > blocksMost {
		t.Errorf("%d blocks", len(p.blocks))
	}
	sum := 0
	text := func(o *api.TextBlockObject, most int) {
		t.Helper()
		sum += units(o.Text)
		if n := units(o.Text); n < 1 || n > most {
			t.Errorf("%d units, and %d are the most: %.100q", n, most, o.Text)
		}
		if o.Type == api.MarkdownType && !o.Verbatim {
			t.Errorf("Slack would make links of %q", o.Text)
		}
		obeyed(t, o.Text)
	}
	obeyed(t, p.text)
	if units(p.text) > textMost {
		t.Errorf("the text has %d units", units(p.text))
	}
	for _, b := range p.blocks {
		switch b := b.(type) {
		case *api.HeaderBlock:
			text(b.Text, headerMost)
		case *api.SectionBlock:
			text(b.Text, textMost)
		case *api.ActionBlock:
			for _, e := range b.Elements.ElementSet {
				button := e.(*api.ButtonBlockElement)
				text(button.Text, 75)
				if units(button.Value) > valueMost {
					t.Errorf("a value has %d units", units(button.Value))
				}
				if c := button.Confirm; c != nil {
					text(c.Title, 100)
					text(c.Text, confirmMost)
					text(c.Confirm, 30)
					text(c.Deny, 30)
				}
			}
		default:
			t.Errorf("a block of type %T", b)
		}
	}
	if sum > messageMost {
		t.Errorf("all blocks together have %d units", sum)
	}
}

// obeyed fails if Slack would interpret markup in text that the package did not write.
func obeyed(t *testing.T, text string) {
	t.Helper()
	for rest := text; ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			break
		}
		rest = rest[i:]
		ours := ""
		for _, form := range []string{"<!here>", "<!subteam^S0OPS>", "<@U0ANN>", "<!date^"} {
			if strings.HasPrefix(rest, form) {
				ours = form
			}
		}
		if ours == "" {
			t.Errorf("Slack would obey %.40q in %.200q", rest, text)
			return
		}
		rest = rest[len(ours):]
	}
	if n := strings.Count(strings.ReplaceAll(text, "```", ""), "`"); n%2 != 0 {
		t.Errorf("a code span is left open in %.200q", text)
	}
	if n := strings.Count(text, "```"); n != 0 && (n != 2 || !strings.HasPrefix(text, "```\n") || !strings.HasSuffix(text, "\n```")) {
		t.Errorf("a code block is closed before its end in %.200q", text)
	}
}

// hostilePieces are the pieces of hostile text.
var hostilePieces = []string{
	"a", " ", "\n", "`", "```", "<", ">", "&", "&amp;", "<!channel>", "<@U0ANN>", "<https://x|y>", "*", "_", "~", "\u202e", "\u200b", "é", "界", "🎉",
	"…", "\\", "\"", "\x00", "\x1b[2J", ":tada:", "@here", "#ops", "http://evil.example", strings.Repeat("&", 700), strings.Repeat("`", 900), strings.Repeat("界", 800),
}

func hostileText(r *rand.Rand, most int) string {
	var b strings.Builder
	for range r.IntN(most) {
		b.WriteString(hostilePieces[r.IntN(len(hostilePieces))])
	}
	return b.String()
}

// Whatever a question contains, its message keeps the limits and has no foreign markup.
//
//gotest:plain one goroutine makes megabytes of text
func TestAnyMessageKeepsToTheLimits(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	t.Logf("seed %d", seed)
	for range 400 {
		q := asked("A-17")
		q.Tool, q.Reason, q.Rule, q.Server, q.Agent, q.Note = hostileText(r, 12), hostileText(r, 30), hostileText(r, 30), hostileText(r, 8), hostileText(r, 8), hostileText(r, 20)
		for range r.IntN(30) {
			q.Facts = append(q.Facts, hostileText(r, 12))
		}
		raw, err := json.Marshal(map[string]any{hostileText(r, 5): hostileText(r, 60), "list": []string{hostileText(r, 60), hostileText(r, 10)}})
		if err != nil {
			t.Fatal(err)
		}
		q.Arguments = raw
		if r.IntN(8) == 0 {
			q.Arguments = []byte(hostileText(r, 40)) // not JSON
		}
		c := laid(q)
		if r.IntN(4) == 0 {
			q.State, q.Decider, q.Surface = rejected, hostileText(r, 10), hostileText(r, 5)
		}
		within(t, c.post(sheet(q)))
		if t.Failed() {
			t.Fatalf("of %q", q.String())
		}
	}
}

func TestEscaped(t *testing.T) {
	for _, test := range []struct {
		in   string
		most int
		want string
	}{
		{"plain", 5, "plain"},
		{"plainer", 5, "plai…"},
		{"<a&b>", 99, "&lt;a&amp;b&gt;"},
		{"a`b", 99, `a\u{60}b`},
		{"&&&", 11, "&amp;&amp;…"}, // an entity is never cut
		{"&&", 10, "&amp;&amp;"},   // fits exactly
		{"a🎉b", 4, "a🎉b"},          // two units
		{"aa🎉🎉", 5, "aa🎉…"},        // a pair of units is never cut
		{"&lt;", 99, "&amp;lt;"},   // an entity in the text is shown as written
		{"", 5, ""},
	} {
		if got := escaped(display.Safe(test.in), test.most); got != test.want || units(got) > test.most {
			t.Errorf("escaped(%q, %d) = %q, want %q", test.in, test.most, got, test.want)
		}
	}
}

func TestMentions(t *testing.T) {
	got := mentions([]string{"here", "U0ANN", "S0OPS", "U1|x>", "W", "everyone", "someone", "", "u0ann"})
	if want := "<!here> <@U0ANN> <!subteam^S0OPS> <!everyone>"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
