package notify

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var desktopWorkflow = &pb.PolicyWorkflow{Name: "ops", Asks: "local", Require: "any", Surfaces: []string{"desktop"}}

// noteOf returns the notification of q on a desktop with the capabilities can.
func noteOf(q *pb.Approval, w *pb.PolicyWorkflow, can ...string) (title, body string, s shown) {
	n := &notifier{desk: &desktop{can: can}, now: func() time.Time { return consoletest.Noon }}
	note := n.questionNote(approval.NewRow(q), w, &s)
	return string(note.title), n.desk.bodyText(note), s
}

// The text for a person, with and without markup.
func TestNotifyTexts(t *testing.T) {
	markup := proto.CloneOf(consoletest.Questions()[1])
	markup.Id, markup.Server, markup.Agent = "A-4", "<b>files</b>", `<a href="https://evil.example">cursor</a>`
	markup.Arguments = []byte(`{"name":"x","arguments":{"a":"<img src=\"x\">&amp;","b":"it's"}}`)
	middling := proto.CloneOf(consoletest.Questions()[1])
	middling.Id = "A-5"
	middling.Arguments = []byte(`{"name":"x","arguments":{"path":"/home/ana/a/rather/long/path/that/one/line/would/cut.txt","content":"buy milk"}}`)
	prompt := proto.CloneOf(consoletest.Questions()[1])
	prompt.Id, prompt.Method, prompt.Tool, prompt.Arguments, prompt.Reason = "A-6", "prompts/get", "review", []byte(`{"name":"review"}`), ""
	empty := proto.CloneOf(consoletest.Questions()[1])
	empty.Id, empty.Arguments = "A-8", nil
	var b strings.Builder
	for _, q := range append(consoletest.Questions()[:3], markup, middling, prompt, empty) {
		for _, can := range [][]string{{"body", "body-markup", "actions"}, {"body", "actions"}} {
			title, body, s := noteOf(q, desktopWorkflow, can...)
			fmt.Fprintf(&b, "--- %s, approve %v\n%s\n%s\n", strings.Join(can, " "), s.approve, title, body)
		}
	}
	many := []*question{}
	for i, server := range strings.Fields("files github files db web files") {
		q := proto.CloneOf(consoletest.Questions()[1])
		q.Id, q.Server = fmt.Sprint("A-", i), server+"\u202e"
		many = append(many, &question{row: approval.NewRow(q)})
	}
	note := summaryNote(many, 2, "")
	fmt.Fprintf(&b, "--- many\n%s\n%s\n", note.title, (&desktop{can: []string{"body", "body-markup"}}).bodyText(note))
	consoletest.Golden(t, "notify", b.String())
}

// If the desktop shows only titles, nothing can be approved there.
func TestNotifyWithoutABody(t *testing.T) {
	_, body, s := noteOf(consoletest.Questions()[1], desktopWorkflow, "actions")
	if body != "" || s.approve {
		t.Errorf("body %q, approve %v", body, s.approve)
	}
}

func TestNotifyUrgency(t *testing.T) {
	for _, test := range []struct {
		facts []string
		want  byte
	}{
		{nil, urgencyNormal},
		{[]string{"sends: it sends", "outside"}, urgencyNormal},
		{[]string{"outside", "secret: AWS access key (content)"}, urgencyCritical},
		{[]string{"acts"}, urgencyCritical},
		{[]string{"ours (path)"}, urgencyCritical},
		{[]string{"secretive: no such fact"}, urgencyNormal},
	} {
		q := proto.CloneOf(consoletest.Questions()[1])
		q.Facts = test.facts
		n := &notifier{desk: &desktop{}, now: func() time.Time { return consoletest.Noon }}
		if got := n.questionNote(approval.NewRow(q), nil, &shown{}).urgency; got != test.want {
			t.Errorf("%q: urgency %d, want %d", test.facts, got, test.want)
		}
	}
}

// Whatever the question contains, the text is safe: with markup it is well-formed and has
// only elements that notify wrote, without markup it has only visible characters. Approve
// is not offered if anything was cut.
func TestNotifyHostileTexts(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringN(30, 400, -1),
		rapid.SampledFrom([]string{"<b>", "</b>", "&lt;", "]]>", "<!--", "\x00", "\u202e", "…", "&#x202e;", "<a href='x'>", "\xff"}))
	rapid.Check(t, func(t *rapid.T) {
		q := proto.CloneOf(consoletest.Questions()[1])
		q.Agent, q.Server, q.Tool, q.Reason, q.Rule = text.Draw(t, "agent"), text.Draw(t, "server"), text.Draw(t, "tool"), text.Draw(t, "reason"), text.Draw(t, "rule")
		content := consoletest.JSONText(text.Draw(t, "content"))
		q.Arguments = []byte(`{"name":"x","arguments":{"content":` + content + `}}`)
		title, plain, s := noteOf(q, desktopWorkflow, "body", "actions")
		if strings.ContainsFunc(title+plain, func(c rune) bool { return c < ' ' && c != '\n' || c == 0x7f || c == '\u202e' || c == '\ufffd' }) {
			t.Errorf("holds what nobody sees:\n%q\n%q", title, plain)
		}
		if s.approve && strings.Contains(title+strings.Split(plain, "asked by")[0], "…") && q.Reason == "" && q.Rule == "" {
			t.Errorf("offers to approve what is cut:\n%s\n%s", title, plain)
		}
		if len([]rune(plain)) > 2000 {
			t.Errorf("%d characters:\n%s", len([]rune(plain)), plain)
		}
		_, marked, _ := noteOf(q, desktopWorkflow, "body", "body-markup", "actions")
		read, err := unmarked(marked)
		if err != nil || read != plain {
			t.Errorf("the markup reads as\n%q, %v; want\n%q", read, err, plain)
		}
	})
}

// unmarked parses markup as a notification daemon does, and fails on elements that notify
// does not use.
func unmarked(markup string) (string, error) {
	dec := xml.NewDecoder(strings.NewReader("<x>" + markup + "</x>"))
	var b strings.Builder
	for {
		token, err := dec.Token()
		switch token := token.(type) {
		case xml.CharData:
			b.Write(token)
		case xml.StartElement:
			if name := token.Name.Local; name != "x" && name != "b" || len(token.Attr) > 0 {
				return "", fmt.Errorf("an element %s", name)
			}
		}
		if errors.Is(err, io.EOF) {
			return b.String(), nil
		}
		if err != nil {
			return "", err
		}
	}
}
