package main

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// The daemon is told of what has had no answer for a second, and when that changes;
// not of what was answered in time, is held, was cancelled, or listens.
func TestUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, last := newLedger(), uint64(10)
		var mu sync.Mutex // guards told and last
		var told []string
		tell := func(all bool) {
			mu.Lock()
			defer mu.Unlock()
			u := l.silent(all, func() uint64 { last++; return last })
			if u == nil {
				return
			}
			var each []string
			for _, r := range u.GetRequests() {
				each = append(each, fmt.Sprintf("%d %s %s %v", r.GetCall(), r.GetMethod(), r.GetId(), r.GetOpen().AsDuration()))
			}
			told = append(told, fmt.Sprintf("%s +%d", strings.Join(each, ", "), u.GetMore()))
		}
		l.silence.due = time.AfterFunc(time.Hour, func() { tell(false) })
		defer l.silence.due.Stop()
		l.silence.due.Stop()
		want := func(all ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(told, "\n"); got != strings.Join(all, "\n") {
				t.Errorf("told:\n%s\nwant:\n%s", got, strings.Join(all, "\n"))
			}
			told = nil
		}
		ask := func(id, method string, written bool) *request {
			r := &request{key: id, id: []byte(id), method: method, side: wire.FromAgent, written: written}
			if l.add(r) != added {
				t.Fatal("it is open")
			}
			return r
		}
		held, judged := ask("1", "tools/call", false), ask("2", "tools/call", false)
		judged.call = &call{seq: 7}
		ask("3", "initialize", true)
		ask("4", "subscriptions/listen", true)
		ask("5", "ping", true)
		cancelled := ask("6", "tools/list", true)
		l.settle(wire.FromAgent, "5")
		l.cancel(cancelled)
		time.Sleep(500 * time.Millisecond)
		l.write(judged)
		time.Sleep(500 * time.Millisecond)
		want("11 initialize 3 1s +0")
		time.Sleep(time.Minute)
		want("11 initialize 3 2s, 7 tools/call 2 1.5s +0") // once, and the second in the next round
		l.write(held)
		l.settle(wire.FromAgent, "1")
		time.Sleep(time.Minute)
		want()
		tell(true) // another daemon
		want("11 initialize 3 2m1s, 7 tools/call 2 2m0.5s +0")
		l.settle(wire.FromAgent, "3")
		time.Sleep(time.Minute)
		want("7 tools/call 2 2m1.5s +0")
		l.cancel(judged)
		time.Sleep(time.Minute)
		want(" +0")
		tell(true)
		want()
	})
}

// There is no end to what a server may leave unanswered: the oldest are told of, and
// the others counted.
func TestMostUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger()
		for i := range mostUnanswered + 3 {
			id := fmt.Sprint(i)
			l.add(&request{key: id, id: []byte(id), method: strings.Repeat("ä", 100), side: wire.FromAgent, written: true})
			time.Sleep(time.Millisecond)
		}
		time.Sleep(unansweredAfter)
		u := l.silent(false, func() uint64 { return 1 })
		if len(u.GetRequests()) != mostUnanswered || u.GetMore() != 3 || string(u.GetRequests()[0].GetId()) != "0" || len(u.GetRequests()[0].GetMethod()) != mostNamed {
			t.Errorf("%d requests and %d more", len(u.GetRequests()), u.GetMore())
		}
	})
}
