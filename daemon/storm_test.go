package daemon_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

var stormReloads = flag.Int("reloads", 100, "how many reloads there are beside calls")

const (
	stormShims  = 4
	stormFlight = 8 // calls under way on each shim
	stormLimit  = 2 * time.Minute
)

// stormSets are two sets that disagree on everything: what one denies by a rule or a policy, the
// other forwards.
var stormSets = []struct{ yaml, cedar, denies string }{
	{"schema: 1\ngovernance: {rules: [{match: a_rule, action: deny}]}\n",
		`forbid (principal, action == ThoughtGate::Action::"files/a_policy", resource) when { context.arguments.n > 0 };`, "a_rule a_policy"},
	{"schema: 1\ngovernance: {rules: [{match: b_rule, action: deny}]}\n",
		`forbid (principal, action == ThoughtGate::Action::"files/b_policy", resource) when { context.arguments.n > 0 };`, "b_rule b_policy"},
}

var stormTools = []string{"a_rule", "a_policy", "b_rule", "b_policy"}

// storm is one shim whose agent calls as fast as it can until it is told to stop.
type storm struct {
	*played
	executed map[int]bool   // by id
	said     map[int]string // answer that the agent got, by id
}

// saidOf returns the id and the verdict in an answer.
func saidOf(t *testing.T, line string) (id int, verdict string) {
	var m struct {
		ID     int
		Result struct{ IsError bool }
		Error  any
	}
	if err := json.Unmarshal([]byte(line), &m); err != nil {
		t.Error(err)
	}
	if m.Result.IsError || m.Error != nil {
		return m.ID, "deny"
	}
	return m.ID, "forward"
}

func (s *storm) run(t *testing.T, stop <-chan struct{}) {
	flight, answered := make(chan struct{}, stormFlight-1), make(chan struct{}) // one more call is waited for
	var reading sync.WaitGroup
	reading.Go(func() {
		defer close(answered)
		for range flight {
			id, verdict := saidOf(t, <-s.toAgent)
			if old, twice := s.said[id]; twice {
				t.Errorf("call %d is answered twice: %s and %s", id, old, verdict)
			}
			s.said[id] = verdict
		}
	})
	reading.Go(func() {
		for {
			select {
			case line := <-s.toServer:
				id, _ := saidOf(t, line)
				if s.executed[id] {
					t.Errorf("call %d is executed twice", id)
				}
				s.executed[id] = true
				fmt.Fprintf(s.server, `{"jsonrpc":"2.0","id":%d,%s}`+"\n", id, done)
			case <-answered:
				return
			}
		}
	})
	defer reading.Wait()
	defer close(flight)
	for {
		s.id++
		line := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`+"\n", s.id, callOf(stormTools[s.id%len(stormTools)], `{"n":1}`))
		if _, err := s.agent.WriteString(line); err != nil {
			t.Error(err)
			return
		}
		select {
		case <-stop:
			flight <- struct{}{}
			return
		case flight <- struct{}{}:
		}
		if s.id%stormFlight == 0 {
			time.Sleep(time.Millisecond) // leave processor time for the reloads
		}
	}
}

// Reloads while calls are under way: each call is judged under one set, the one that its
// record names, and none is forwarded unjudged.
func TestReloadStorm(t *testing.T) {
	h := newHome(t, stormSets[0].yaml)
	h.policy(t, stormSets[0].cedar)
	d, _ := h.start(t)
	c := h.control(t)
	digests := map[string]int{} // number of each set, by digest
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
	for range stormShims {
		s := &storm{played: h.attach(t), executed: map[int]bool{}, said: map[int]string{}}
		s.list(`{"name":"a_policy","inputSchema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`)
		storms = append(storms, s)
		running.Go(func() { s.run(t, stop) })
	}
	began := time.Now()
	for n := range *stormReloads {
		i := (n + 1) % 2
		switch {
		case n%50 == 49: // a reload that fails leaves the set as it is
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
	calls, bySet := checkStorm(t, h, storms, digests)
	t.Logf("%d reloads and %d calls in %v, under the sets %v", *stormReloads, calls, took, bySet)
	if calls < *stormReloads || bySet[0] < 100 || bySet[1] < 100 {
		t.Error("too few calls were judged under one of the sets for this to tell anything")
	}
}

// checkStorm compares what the agents and the servers got with the record.
func checkStorm(t *testing.T, h *home, storms []*storm, digests map[string]int) (calls int, bySet [2]int) {
	t.Helper()
	recorded := map[string]string{}
	for _, line := range h.records(t, "call") {
		var r record.Record
		if err := json.Unmarshal(line.GetLine(), &r); err != nil {
			t.Fatal(err)
		}
		if r.Method != "tools/call" {
			continue
		}
		key := r.Attachment + " " + r.MessageID
		if recorded[key] != "" {
			t.Errorf("call %s is on record twice", key)
		}
		recorded[key] = r.Verdict
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
	}
	for _, s := range storms {
		for id := 2; id <= s.id; id++ { // the first request was the list
			key := fmt.Sprintf("%s %d", s.attachment, id)
			if verdict := recorded[key]; verdict == "" || s.said[id] != verdict || s.executed[id] != (verdict == "forward") {
				t.Errorf("call %s: told %q, executed %v, recorded %q", key, s.said[id], s.executed[id], verdict)
			}
		}
		calls += s.id - 1
	}
	if len(recorded) != calls {
		t.Errorf("%d calls were made, %d are on record", calls, len(recorded))
	}
	return calls, bySet
}
