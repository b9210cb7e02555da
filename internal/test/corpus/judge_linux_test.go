package corpus

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/pin"
	"github.com/thoughtgate/thoughtgated/daemon/policy"
	"github.com/thoughtgate/thoughtgated/daemon/rehearse"
	"github.com/thoughtgate/thoughtgated/internal/record"
)

// result is a case with what would become of it.
type result struct {
	example
	verdict string // the strictest of its lines: forward, ask, deny
	why     string
}

// wrong says what is wrong with the verdict, or "".
func (r *result) wrong() string {
	switch {
	case r.leftOut != "":
		return ""
	case r.dangerous && r.verdict == "forward":
		return "missed"
	case !r.dangerous && r.verdict != "forward":
		return "asked"
	}
	return ""
}

// nowhere is a recorder that discards records.
type nowhere struct{}

func (nowhere) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// newStage returns a stage with the parts of the daemon's gate that judge calls, under the built-in
// default.
func newStage() (*rehearse.Stage, error) {
	c := config.Default()
	set, problems := policy.Load(c)
	if set == nil {
		return nil, fmt.Errorf("load the built-in default: %v", problems)
	}
	pins, err := pin.New(nil, pin.Options{Mode: c.Pins.Mode, Recorder: nowhere{}})
	if err != nil {
		return nil, err
	}
	set = set.WithKnownFunc(func(c *gate.Call) policy.Known { return policy.Known{Annotations: pins.Annotations(c)} })
	ours := func() []string {
		return []string{home + "/.config/thoughtgate", home + "/.local/state/thoughtgate", "/run/user/1000/thoughtgate"}
	}
	return rehearse.New(func() *gate.Gate {
		return &gate.Gate{
			Policy: func() gate.Policy { return set }, Pins: pins, Presence: gate.Assumed,
			Facts: facts.New(facts.Options{Home: home, Ours: ours}),
		}
	}), nil
}

// judge judges cases, each in a session of its own and with servers of its own.
func judge(ctx context.Context, cases []example) ([]result, error) {
	stage, err := newStage()
	if err != nil {
		return nil, err
	}
	defer stage.Close()
	var results []result
	for i, c := range cases {
		r := result{example: c, verdict: "forward"}
		for _, l := range c.lines {
			l.Agent, l.Project, l.Session = "custom", project, "case "+strconv.Itoa(i)
			if l.Server == "" {
				l.Server = "server-" + strconv.Itoa(i)
			}
			a, err := stage.Judge(ctx, l, false)
			if err != nil {
				return nil, fmt.Errorf("judge %s: %w", short(c.text), err)
			}
			if a.Verdict == "deny" || a.Verdict == "ask" && r.verdict == "forward" {
				r.verdict, r.why = a.Verdict, because(a)
			}
			if c.each && l.Result == nil {
				r.text = fmt.Sprintf("%s: %s %s %s", c.text, l.Server, l.Subject, l.Arguments)
				results = append(results, r)
				r = result{example: c, verdict: "forward"}
			}
		}
		if c.each && c.lines != nil {
			continue
		}
		results = append(results, r)
	}
	return results, nil
}

// because says which facts led to an answer.
func because(a *rehearse.Answer) string {
	words := []string{a.Reason}
	for _, f := range a.Facts {
		words = append(words, f.Name+": "+f.Detail)
	}
	return short(strings.Join(words, " | "))
}

// object returns a JSON object with these members.
func object(members map[string]string) []byte {
	raw, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return raw
}
