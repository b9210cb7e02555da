package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func submitUp(seq uint64, size int) *pb.Up {
	return &pb.Up{Msg: &pb.Up_Submit{Submit: &pb.Submit{Seq: seq, Line: bytes.Repeat([]byte("x"), size)}}}
}

// Small messages that wait go in one, so many at most, and in their order; what is
// large, and what is neither a line nor the word on one, goes by itself.
func TestSendTogether(t *testing.T) {
	s := newStage(t, false)
	l := s.proxy.link
	var want []int
	l.send.Lock()
	for i := range crowd + 4 {
		l.waiting = append(l.waiting, submitUp(uint64(i+1), 10))
	}
	want = append(want, crowd, 4)
	l.waiting = append(l.waiting, submitUp(crowd+5, company+1))
	l.waiting = append(l.waiting, &pb.Up{Msg: &pb.Up_Cancel{Cancel: &pb.Cancel{Seq: 1}}})
	want = append(want, 1, 1)
	l.waiting = append(l.waiting, submitUp(crowd+6, 10))
	l.waiting = append(l.waiting, &pb.Up{Msg: &pb.Up_Observe{Observe: &pb.Observe{Call: 7}}})
	want = append(want, 2)
	err := l.sendAll(l.stream)
	left := len(l.waiting)
	l.send.Unlock()
	if err != nil || left > 0 {
		t.Fatalf("%d messages are left, %v", left, err)
	}
	var got []int
	for range want {
		n, err := receive(s.daemon.crowds)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
	}
	if !slices.Equal(got, want) {
		t.Errorf("messages in one: %d, want %d", got, want)
	}
	for i := range uint64(crowd + 6) {
		m, err := receive(s.daemon.submits)
		if err != nil || m.GetSeq() != i+1 {
			t.Fatalf("submission %d: %d, %v", i+1, m.GetSeq(), err)
		}
	}
}

// Lines that came in one read are submitted in their order, and each of them though
// what follows is no submission, or never comes.
func TestReadTogether(t *testing.T) {
	s := newStage(t, false)
	const n = 30 // within the window
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"t"}}`, i))
	}
	lines = append(lines, `{"jsonrpc":"2.0","id":"p","method":"ping"}`, `{"jsonrpc":"2.0","met`)
	go func() { _, _ = s.in[wire.FromAgent].Write([]byte(strings.Join(lines, "\n"))) }()
	down := &pb.Down{}
	for i := range n {
		m, err := receive(s.daemon.submits)
		if err != nil {
			t.Fatal(err)
		}
		if want := lines[i]; string(m.GetLine()) != want {
			t.Fatalf("submission %d is %s, want %s", i, m.GetLine(), want)
		}
		down.More = append(down.More, &pb.Down{Msg: &pb.Down_Verdict{Verdict: forwarded(m)}})
	}
	down.Msg, down.More = down.More[0].Msg, down.More[1:]
	s.daemon.say(down) // all verdicts in one
	for _, want := range lines[:n+1] {
		got, err := receive(s.out[wire.FromServer])
		if err != nil || got != want {
			t.Fatalf("the server read %s, %v; want %s", got, err, want)
		}
	}
}

// What waits when the stream tears is not lost: what was observed is told on the
// next one, before what is submitted again.
func TestTornWhileWaiting(t *testing.T) {
	s := newStage(t, false)
	l := s.proxy.link
	l.send.Lock()
	l.waiting = append(l.waiting, &pb.Up{Msg: &pb.Up_Observe{Observe: &pb.Observe{Call: 41}}}, &pb.Up{Msg: &pb.Up_Observe{Observe: &pb.Observe{Call: 42}}})
	l.send.Unlock()
	s.daemon.tear()
	for _, want := range []uint64{41, 42} {
		o, err := receive(s.daemon.observations)
		if err != nil || o.GetCall() != want {
			t.Fatalf("told of call %d, %v; want %d", o.GetCall(), err, want)
		}
	}
}
