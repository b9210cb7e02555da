package daemon_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/internal/record"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

var stormReloads = flag.Int("reloads", 300, "how many reloads there are beside calls")

const (
	stormShims  = 4
	stormFlight = 8 // calls in flight through each
	stormLimit  = 2 * time.Minute
)

// Two sets that agree on nothing: what one denies by a rule or a policy, the
// other forwards.
var stormSets = []struct{ yaml, cedar, denies string }{
	{"schema: 1\ngovernance: {rules: [{match: a_rule, action: deny}]}\n",
		`forbid (principal, action == ThoughtGate::Action::"files/a_policy", resource) when { context.arguments.n > 0 };`, "a_rule a_policy"},
	{"schema: 1\ngovernance: {rules: [{match: b_rule, action: deny}]}\n",
		`forbid (principal, action == ThoughtGate::Action::"files/b_policy", resource) when { context.arguments.n > 0 };`, "b_rule b_policy"},
}

var stormTools = []string{"a_rule", "a_policy", "b_rule", "b_policy"}

// storm is one shim that calls as fast as it may until it is told to stop.
type storm struct {
	a    *client.Attachment
	sent uint64               // the last seq
	said map[uint64]pb.Action // by seq
}

func (s *storm) run(t *testing.T, stop <-chan struct{}) {
	flight := make(chan struct{}, stormFlight-1) // one more is being waited for
	var reading sync.WaitGroup
	reading.Go(func() {
		for range flight {
			v := word(t, s.a)
			if old, twice := s.said[v.GetSeq()]; twice {
				t.Errorf("call %d has two verdicts: %v and %v", v.GetSeq(), old, v.GetAction())
			}
			s.said[v.GetSeq()] = v.GetAction()
		}
	})
	defer reading.Wait()
	defer close(flight)
	for seq := uint64(1); ; seq++ {
		tool := stormTools[seq%uint64(len(stormTools))]
		line := []byte(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"n":1}}}`, seq, tool))
		err := s.a.Send(&pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Direction: pb.Direction_DIRECTION_AGENT_TO_SERVER, Line: line}}})
		if err != nil {
			t.Error(err)
			return
		}
		s.sent = seq
		select {
		case <-stop:
			flight <- struct{}{}
			return
		case flight <- struct{}{}:
		}
		if seq%stormFlight == 0 {
			time.Sleep(time.Millisecond) // the processors are for the reloads too
		}
	}
}

// A thousand reloads while calls are in flight: each call is judged under one
// set, the one that its record names, and none goes unjudged.
func TestReloadStorm(t *testing.T) {
	h := newHome(t, stormSets[0].yaml)
	h.policy(t, stormSets[0].cedar)
	d, _ := h.start(t)
	c := h.control(t)
	digests := map[string]int{} // of the sets, with their number
	note := func(i int) {
		t.Helper()
		set, err := c.PolicySet(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		digests[set.GetDigest()] = i
	}
	note(0)

	var storms []*storm
	var running sync.WaitGroup
	stop := make(chan struct{})
	for i := range stormShims {
		s := &storm{a: h.attachAs(t, fmt.Sprintf("%032d", i+1)), said: map[uint64]pb.Action{}}
		list(t, s.a, 1<<40, `{"name":"a_policy","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`)
		storms = append(storms, s)
		running.Go(func() { s.run(t, stop) })
	}
	began := time.Now()
	for n := range *stormReloads {
		i := (n + 1) % 2
		switch {
		case n%50 == 49: // one that fails leaves the set as it is
			h.write(t, "schema: 1\nrulez: []\n")
		default:
			h.write(t, stormSets[i].yaml)
			h.policy(t, stormSets[i].cedar)
		}
		d.Reload(t.Context(), "storm")
		if n == 0 {
			note(1)
		}
	}
	close(stop)
	running.Wait()
	took := time.Since(began)
	if took > stormLimit {
		t.Errorf("%d reloads took %v", *stormReloads, took)
	}
	if len(digests) != 2 {
		t.Fatalf("the sets have the digests %v", digests)
	}
	calls, bySet := checkStorm(t, c, storms, digests)
	t.Logf("%d reloads and %d calls in %v, under the sets %v", *stormReloads, calls, took, bySet)
	if calls < *stormReloads || bySet[0] < 100 || bySet[1] < 100 {
		t.Error("too few calls were judged under one of the sets for this to tell anything")
	}
}

// checkStorm holds what the shims were told against the record.
func checkStorm(t *testing.T, c *client.Client, storms []*storm, digests map[string]int) (calls int, bySet [2]int) {
	t.Helper()
	recorded := map[string]bool{}
	for line, err := range c.ReadAudit(t.Context(), &pb.AuditQuery{Kind: "call"}) {
		if err != nil {
			t.Fatal(err)
		}
		var r record.Record
		if err := json.Unmarshal(line.GetLine(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Method != "tools/call" {
			continue
		}
		key := fmt.Sprintf("%s %d", r.Attachment, r.Call)
		if recorded[key] {
			t.Errorf("call %s is on record twice", key)
		}
		recorded[key] = true
		i, known := digests[r.Set]
		if !known {
			t.Errorf("call %s was judged under the set %s, which was never in force", key, r.Set)
			continue
		}
		want := "forward"
		if strings.Contains(stormSets[i].denies, r.Tool) {
			want = "deny"
		}
		if r.Verdict != want {
			t.Errorf("call %s of %s under set %d: recorded %s, want %s", key, r.Tool, i, r.Verdict, want)
		}
		bySet[i]++
		for n, s := range storms {
			if r.Attachment == fmt.Sprintf("%032d", n+1) && (s.said[r.Call] == pb.Action_ACTION_DENY) != (r.Verdict == "deny") {
				t.Errorf("call %s: told %v, recorded %s", key, s.said[r.Call], r.Verdict)
			}
		}
	}
	for n, s := range storms {
		for seq := uint64(1); seq <= s.sent; seq++ {
			if _, ok := s.said[seq]; !ok || !recorded[fmt.Sprintf("%032d %d", n+1, seq)] {
				t.Errorf("call %d of shim %d was not judged", seq, n)
			}
		}
		calls += int(s.sent)
	}
	if len(recorded) != calls {
		t.Errorf("%d calls were made, %d are on record", calls, len(recorded))
	}
	return calls, bySet
}
