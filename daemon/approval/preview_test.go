package approval

import (
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// A list shows the helpful part of a question, as JSON, however long it is.
func TestPreview(t *testing.T) {
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprintf(`"m%d":{"a":[1,"two",{}]}`, i))
	}
	for name, params := range map[string]string{
		"a long string": `{"name":"write","arguments":{"text":"` + strings.Repeat("x", 6<<20) + `","path":"notes.txt"}}`,
		"a long number": `{"name":"write","arguments":{"n":` + strings.Repeat("1", 6<<20) + `}}`,
		"many members":  `{"name":"write","arguments":{` + strings.Join(many, ",") + `}}`,
		"a deep list":   strings.Repeat("[", 5000) + strings.Repeat("]", 5000),
		"no JSON":       `{"name":` + strings.Repeat("x", 10_000),
	} {
		short := preview([]byte(params))
		if len(short) > 3*longestPreview || !json.Valid(short) {
			t.Errorf("%s: %d bytes: %.200s", name, len(short), short)
		}
		if name == "a long string" && (!strings.Contains(string(short), "(6291456 bytes)") || !strings.Contains(string(short), "notes.txt")) {
			t.Errorf("%s: %.400s", name, short)
		}
	}
	if whole := `{"name":"x"}`; string(preview([]byte(whole))) != whole {
		t.Error("a short one is not whole")
	}
}

// A queue holds only the beginning of a long question. Get reads the whole from disk and
// returns what was stored, or fails.
func TestLongQuestionsAreOnDisk(t *testing.T) {
	h := newFixture(t, Options{})
	defer func() { h.close() }()
	arguments := `{"a":"` + strings.Repeat("x", 1<<20) + `"}`
	h.askFor(shownWhole(1, arguments))
	check := func(when string) {
		t.Helper()
		if list := h.q.List(false); len(list) != 1 || len(list[0].Params) > 3*longestPreview || list[0].ParamsBytes <= 1<<20 {
			t.Errorf("%s: listed as %.200v", when, list)
		}
		for q, err := range h.q.Watch(t.Context()) {
			if err != nil || len(q.Params) > 3*longestPreview || q.ParamsBytes <= 1<<20 {
				t.Errorf("%s: told as %.200s, %v", when, q.Params, err)
			}
			break
		}
		if q, err := h.q.Get(ctx, "A-1"); err != nil || !strings.Contains(string(q.Params), arguments) || q.ParamsBytes != 0 {
			t.Errorf("%s: got %.200s, %v", when, q.Params, err)
		}
	}
	check("filed")
	h.restart()
	check("after a restart")

	asked, err := h.q.Get(ctx, "A-1")
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", h.path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(`UPDATE questions SET params = ?`, []byte(strings.Replace(string(asked.Params), "xxx", "yyy", 1))); err != nil {
		t.Fatal(err)
	}
	if q, err := h.q.Get(ctx, "A-1"); !errors.Is(err, gate.ErrChanged) || q.Params != nil {
		t.Errorf("of other params on disk: got %.200s, %v", q.Params, err)
	}
	d := Decision{ID: "A-1", Subject: asked.Subject[:], Approve: true, Decider: "uid 1", Edit: []byte(`{"a":1}`)}
	if _, err := h.q.Decide(ctx, d); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("edited, of other params on disk: %v", err)
	}
	d.Approve, d.Edit = false, nil
	if q, err := h.q.Decide(ctx, d); err != nil || q.Params != nil || q.ParamsBytes != 0 {
		t.Errorf("a no: %.200v, %v", q, err)
	}
}

// A held call is in memory once, as it was submitted: there is no second copy if other
// params are left out of what is shown, or hidden by the workflow.
func TestALongCallIsHeldOnce(t *testing.T) {
	const calls, size = 8, 1 << 20
	for name, redact := range map[string][]string{"with a progress token": nil, "in part hidden": {"key"}} {
		t.Run(name, func(t *testing.T) {
			h := newFixture(t, Options{})
			defer h.close()
			before := inUse()
			var all []*gate.Question
			for n := range uint64(calls) {
				q := asked("a", n)
				c := q.Call
				c.Line = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop","arguments":{"table":"%s","key":"%d"},"_meta":{"progressToken":1,"x":2}}}`,
					strings.Repeat("x", size), n)
				if err := wire.Read(c.Line, wire.FromAgent, &c.Envelope); err != nil {
					t.Fatal(err)
				}
				q.Subject, q.Ruling.Redact = c.Digest(), redact
				h.askFor(q)
				all = append(all, q)
			}
			held := float64(inUse()-before) / (calls * size)
			if held > 1.5 {
				t.Errorf("the calls are held %.1f times", held)
			}
			if open, _ := h.q.Counts(); open != calls {
				t.Errorf("%d questions are open", open)
			}
			runtime.KeepAlive(all)
		})
	}
}

// inUse returns the number of heap bytes in use. Pools are empty after a second
// collection.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
