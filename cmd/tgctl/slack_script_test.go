package main

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/slack/fakeslack"
)

// slacks holds the fake Slacks of the running scripts.
var slacks sync.Map // *fakeslack.Server by working directory

// scriptSlack controls a fake Slack in a script:
//
//	slack start                     start it, and make tgctl use it
//	slack shows ID PATTERN          wait until the message of a question matches
//	slack press USER ACTION ID      press a button, and wait for the acknowledgement
//	slack insist USER ACTION ID PATTERN
//	                                press it repeatedly until the message matches
//	slack submit USER REASON        submit the form that was opened last
//	slack tells USER PATTERN        wait for a message to one user
//	slack count N                   expect N messages
//	slack disconnect                close every connection
func scriptSlack(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: slack COMMAND [ARGUMENT...]")
	}
	work := ts.Getenv("WORK")
	if args[0] == "start" {
		s := fakeslack.New()
		slacks.Store(work, s)
		ts.Defer(func() { slacks.Delete(work); s.Close() })
		ts.Setenv("THOUGHTGATE_SLACK_API", s.URL())
		return
	}
	found, ok := slacks.Load(work)
	if !ok {
		ts.Fatalf("there is no Slack yet: slack start")
	}
	s := found.(*fakeslack.Server)
	switch want := map[string]int{"shows": 3, "press": 4, "insist": 5, "submit": 3, "tells": 3, "count": 2, "disconnect": 1}[args[0]]; {
	case want == 0 || len(args) != want:
		ts.Fatalf("slack %s: unknown, or with the wrong arguments", strings.Join(args, " "))
	case args[0] == "shows":
		waitFor(ts, s, args, func() bool { return questionOn(s, args[1], regexp.MustCompile(args[2])) != nil })
	case args[0] == "press":
		var id string
		waitFor(ts, s, args, func() bool {
			if m := questionOn(s, args[3], regexp.MustCompile("")); m != nil {
				id = s.Press(fakeslack.Press{User: args[1], Action: args[2], Message: *m})
			}
			return id != ""
		})
		waitFor(ts, s, args, func() bool { return s.Envelope(id).Acks > 0 })
	case args[0] == "insist":
		done, nothing := regexp.MustCompile(args[4]), 0
		waitFor(ts, s, args, func() bool {
			if questionOn(s, args[3], done) != nil {
				return true
			}
			told := 0
			for _, e := range s.Ephemerals() {
				if e.User == args[1] && strings.Contains(strings.ToLower(e.Text), "nothing was decided") {
					told++
				}
			}
			if told >= nothing {
				if m := questionOn(s, args[3], regexp.MustCompile("")); m != nil {
					s.Press(fakeslack.Press{User: args[1], Action: args[2], Message: *m})
					nothing = told + 1
				}
			}
			return false
		})
	case args[0] == "submit":
		var id string
		waitFor(ts, s, args, func() bool {
			if views := s.Views(); len(views) > 0 {
				id = s.Submit(views[len(views)-1], args[1], args[2])
			}
			return id != ""
		})
		waitFor(ts, s, args, func() bool { return s.Envelope(id).Acks > 0 })
	case args[0] == "tells":
		pattern := regexp.MustCompile(args[2])
		waitFor(ts, s, args, func() bool {
			for _, e := range s.Ephemerals() {
				if e.User == args[1] && pattern.MatchString(e.Text) {
					return true
				}
			}
			return false
		})
	case args[0] == "count":
		if all := s.Messages(); args[1] != strconv.Itoa(len(all)) {
			ts.Fatalf("%d messages stand there", len(all))
		}
	case args[0] == "disconnect":
		s.Disconnect("refresh_requested")
	}
}

// questionOn returns the message of a question if it matches, or nil.
func questionOn(s *fakeslack.Server, id string, pattern *regexp.Regexp) *fakeslack.Message {
	for _, m := range s.Messages() {
		if shown := m.Shown(); strings.HasPrefix(shown, "Question "+id+"\n") && pattern.MatchString(shown) {
			return &m
		}
	}
	return nil
}

func waitFor(ts *testscript.TestScript, s *fakeslack.Server, what []string, done func() bool) {
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, m := range s.Messages() {
				ts.Logf("%s", m.Shown())
			}
			ts.Fatalf("it never came: slack %s", strings.Join(what, " "))
		}
	}
}
