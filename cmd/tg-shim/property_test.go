package main

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Whatever valid messages the two sides exchange, at the same time and in
// pieces of any size: each arrives byte for byte, in the order it was written.
func TestAnyMessageSurvives(t *testing.T) {
	for what, shared := range map[string]bool{"a server of its own": false, "a shared one": true} {
		t.Run(what, func(t *testing.T) { anyMessageSurvives(t, shared) })
	}
}

func anyMessageSurvives(t *testing.T, shared bool) {
	t.Parallel()
	stage := newStage(t, shared)
	stage.forwardAll(t)
	ids := 0
	rapid.Check(t, func(t *rapid.T) {
		var asked, answered [2][]string
		for _, side := range []wire.Side{wire.FromAgent, wire.FromServer} {
			for range rapid.IntRange(0, 12).Draw(t, "messages") {
				kind := rapid.SampledFrom(kinds[side]).Draw(t, "kind")
				if kind.answer == "" {
					asked[side] = append(asked[side], fill(t, kind.text, ""))
					continue
				}
				ids++
				id := fmt.Sprintf(rapid.SampledFrom([]string{`%d`, `-%d`, `"%d"`, `"é\u00e9\n%d"`}).Draw(t, "id"), ids)
				asked[side] = append(asked[side], fill(t, kind.text, id))
				answered[other(side)] = append(answered[other(side)], fill(t, kind.answer, id))
			}
		}
		stage.cross(t, asked)
		for side := range answered {
			if len(answered[side]) > 0 {
				answered[side] = rapid.Permutation(answered[side]).Draw(t, "answers")
			}
		}
		stage.cross(t, answered)
	})
}

// kind is a message and the answer to it, if one is due. ID, VALUE and BLANK
// are filled in.
type kind struct{ text, answer string }

var kinds = [2][]kind{
	wire.FromAgent: {
		{`{"jsonrpc":"2.0",BLANK"id":ID,"method":"tools/call","params":{"name":"n","arguments":{"v":BLANKVALUE}}}`, `{"jsonrpc":"2.0","id":ID,"result":{"content":[],"structuredContent":{"v":VALUE}}}`},
		{`BLANK{"params":{"_meta":{"progressToken":ID,"x/y":VALUE},"name":"n"},"method":"tools\/call","id":ID,"jsonrpc":"2.0"}BLANK`, `{"error":{"code":-5,"message":"x","data":VALUE},"id":ID,"jsonrpc":"2.0"}`},
		{`{"jsonrpc":"2.0","id":ID,"method":"ping","x":VALUE}`, `{"jsonrpc":"2.0","result":{},"id":ID}`},
		{`{"jsonrpc":"2.0","id":ID,"method":"resources/list","params":{"cursor":VALUE}}`, `{"jsonrpc":"2.0","id":ID,"result":{"resources":[],"nextCursor":VALUE}}`},
		{`{"jsonrpc":"2.0","id":ID,"method":"resources/read","params":{"uri":"file:///a","v":VALUE}}`, `{"jsonrpc":"2.0","id":ID,"result":{"contents":[VALUE]}}`},
		{`{"jsonrpc":"2.0","method":"notifications/progress","params":{"v":VALUE}}`, ``},
	},
	wire.FromServer: {
		{`{"jsonrpc":"2.0","id":ID,"method":"sampling/createMessage","params":{"messages":[VALUE]}}`, `{"jsonrpc":"2.0","id":ID,"result":{"content":VALUE}}`},
		{`{"jsonrpc":"2.0",BLANK"id":ID,"method":"ping"}`, `{"jsonrpc":"2.0","id":ID,"result":{}}`},
		{`{"method":"notifications/message","params":{"data":VALUE},"jsonrpc":"2.0"}`, ``},
		{`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`, ``},
	},
}

func fill(t *rapid.T, text, id string) string {
	for strings.Contains(text, "BLANK") {
		text = strings.Replace(text, "BLANK", rapid.SampledFrom([]string{"", " ", "\t", "  "}).Draw(t, "blank"), 1)
	}
	for strings.Contains(text, "VALUE") {
		text = strings.Replace(text, "VALUE", value(t, 3), 1)
	}
	return strings.ReplaceAll(text, "ID", id)
}

// value is any JSON value, in one of the many ways in which it can be written.
func value(t *rapid.T, depth int) string {
	if depth > 0 {
		n := rapid.IntRange(0, 3).Draw(t, "size")
		parts := make([]string, n)
		switch rapid.IntRange(0, 3).Draw(t, "shape") {
		case 0:
			for i := range parts {
				parts[i] = value(t, depth-1)
			}
			return "[" + strings.Join(parts, " ,") + "]"
		case 1:
			for i := range parts {
				parts[i] = fmt.Sprintf(`"%d%s" :%s`, i, text(t), value(t, depth-1))
			}
			return "{ " + strings.Join(parts, ",") + "}"
		}
	}
	return rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "0", "-0", "1.50", "1E+400", "31415926535897932384626433832795", "-7e-9"}),
		rapid.Custom(func(t *rapid.T) string { return `"` + text(t) + `"` }),
		rapid.Custom(func(t *rapid.T) string {
			return `"` + strings.Repeat(text(t), rapid.IntRange(1, 5000).Draw(t, "times")) + `"`
		}),
	).Draw(t, "scalar")
}

// text is the inside of a JSON string.
func text(t *rapid.T) string {
	piece := rapid.SampledFrom([]string{"a", "é", "日", "😀", "\u2028", "\x7f", `\u0041`, `\ud83d\ude00`, `\n`, `\"`, `\\`, `\/`, "{", "]", ":", ",", " ", "id"})
	return strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "text"), "")
}

// forwardAll plays a daemon that forwards everything.
func (s *stage) forwardAll(t *testing.T) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case m := <-s.daemon.submits:
				s.daemon.send(forwarded(m))
			case <-s.daemon.observations:
			case <-s.daemon.cancels:
			case <-t.Context().Done():
				return
			}
		}
	}()
	t.Cleanup(func() { <-done })
}

// cross writes lines on both sides at once and reads them on the other.
func (s *stage) cross(t *rapid.T, lines [2][]string) {
	sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(1, 8), rapid.IntRange(9, 9000)), 1, 20).Draw(t, "sizes")
	written := make(chan error, len(lines))
	for side := range lines {
		go func() {
			written <- s.writeIn(wire.Side(side), strings.Join(append(lines[side], ""), "\n"), sizes)
		}()
	}
	for side := range lines {
		for i, want := range lines[side] {
			got, err := receive(s.out[other(wire.Side(side))])
			if err != nil {
				t.Fatalf("side %d, line %d: %v", side, i, err)
			}
			if got != want {
				t.Fatalf("side %d, line %d:\n got %.300q\nwant %.300q", side, i, got, want)
			}
		}
	}
	for range lines {
		if err := <-written; err != nil {
			t.Fatal(err)
		}
	}
}

// writeIn writes text in pieces of these sizes, over and over.
func (s *stage) writeIn(side wire.Side, text string, sizes []int) error {
	for i := 0; text != ""; i++ {
		n := min(sizes[i%len(sizes)], len(text))
		if _, err := s.in[side].Write([]byte(text[:n])); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// The longest message has 10 MiB and crosses; one byte more and it is refused,
// its request answered, and the next message crosses. EC-STDIO-014, EC-STDIO-032.
func TestLongestMessage(t *testing.T) {
	t.Parallel()
	sides := map[string]struct {
		side       wire.Side
		before     string // from the other side
		head, tail string
		refusal    string
	}{
		"call":   {wire.FromAgent, "", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n","arguments":{"v":"`, `"}}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"longer than 10 MiB"}}`},
		"passes": {wire.FromAgent, "", `{"jsonrpc":"2.0","method":"ping","params":{"v":"`, `"},"id":1}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"longer than 10 MiB"}}`},
		"result": {wire.FromServer, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"n"}}`, `{"jsonrpc":"2.0","id":1,"result":{"v":"`, `"}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-31012,"message":"the answer was refused: longer than 10 MiB"}}`},
		"list":   {wire.FromServer, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, `{"jsonrpc":"2.0","result":{"tools":[],"nextCursor":"`, `"},"id":1}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-31012,"message":"the answer was refused: longer than 10 MiB"}}`},
	}
	for name, c := range sides {
		for _, more := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%+d", name, more), func(t *testing.T) {
				stage := newStage(t, false)
				stage.forwardAll(t)
				if c.before != "" {
					stage.mustPlay(t, "agent> "+c.before, "server< "+c.before)
				}
				line := c.head + strings.Repeat("x", wire.MaxMessage+more-len(c.head)-len(c.tail)) + c.tail
				written := make(chan error, 1)
				go func() { written <- stage.writeIn(c.side, line+"\n", []int{4097, 1 << 20, 1}) }()
				want, from := line, stage.out[other(c.side)]
				if more > 0 {
					want, from = c.refusal, stage.out[wire.FromAgent]
				}
				if got, err := receive(from); err != nil || got != want {
					t.Fatalf("got %.200q (%d bytes) %v\nwant %.200q (%d bytes)", got, len(got), err, want, len(want))
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				stage.mustPlay(t, `agent> {"jsonrpc":"2.0","id":2,"method":"ping"}`, `server< {"jsonrpc":"2.0","id":2,"method":"ping"}`,
					`server> {"jsonrpc":"2.0","id":2,"result":{}}`, `agent< {"jsonrpc":"2.0","id":2,"result":{}}`)
			})
		}
	}
}

func (s *stage) mustPlay(t *testing.T, steps ...string) {
	t.Helper()
	if err := s.playAll(steps...); err != nil {
		t.Fatal(err)
	}
}
