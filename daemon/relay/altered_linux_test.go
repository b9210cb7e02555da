package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// extent is a part of a mapping that was written to.
type extent struct {
	at    int64
	bytes []byte
}

const alteredLongest = 1 << 20

// Pending output of a daemon that a judge has forwarded.
var owedJudged = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long","arguments":{"text":"` + strings.Repeat("x", 300<<10) + `","call":{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"denied"}}}}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"short"}}`,
	`{"jsonrpc":"2.0","id":5,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}`,
}

// leftover is what a daemon leaves behind: its memory, the content of the staging pipes to
// each side, and its records.
type leftover struct {
	memory  []extent
	staged  [2][]byte
	digests map[uint64]string
}

// leftBehind returns the leftover of a daemon whose pending output is two calls and a ping for
// the server, and a server's request for the agent. It also holds another call.
var leftBehind = sync.OnceValue(func() leftover {
	judge := &askingJudge{digests: map[uint64]string{}, asked: make(chan gate.Submission, 2)}
	var r, w [4]*os.File // what the agent and the server write, and what they read
	var staging [2]*pipe.Staging
	for i := range r {
		r[i], w[i], _ = os.Pipe()
	}
	for i := range staging {
		staging[i], _ = pipe.NewStaging()
	}
	m, err := mapping.Create(alteredLongest)
	if err != nil {
		panic(err)
	}
	kept := []*os.File{duplicateOf(m.File()), duplicateOf(staging[0].File()), duplicateOf(staging[1].File())}
	s, err := New(judge, Ends{Agent: Pair{r[0], w[2]}, Staging: staging[0], Mapping: m, Server: &Pipes{Pair: Pair{r[1], w[3]}, Staging: staging[1]}}, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	for _, full := range w[2:] { // nobody reads, and the pipes are full
		fd := int(full.Fd())
		_ = unix.SetNonblock(fd, true)
		for n := 0; n >= 0; {
			n, _ = unix.Write(fd, bytes.Repeat([]byte("\n"), 4096))
		}
	}
	go s.Run() // ends with Leave
	until := func(ready func() bool) {
		for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) { // between two checks
			s.mu.Lock()
			is := ready()
			s.mu.Unlock()
			if is {
				return
			}
			if time.Now().After(end) {
				panic("not within a minute")
			}
		}
	}
	// The output to both sides is blocked, but their pumps continue to read.
	_, _ = io.WriteString(w[0], owedJudged[1]+"\n")
	_, _ = io.WriteString(w[1], owedJudged[2]+"\n")
	for range 2 {
		line := <-judge.asked
		until(func() bool { return s.inputs[line.Side].(*input).idle }) // otherwise the pump would write it, and be blocked
		judge.forward(line)
	}
	until(func() bool { return s.outputs[fromServer].writing && s.outputs[fromAgent].writing })
	_, _ = io.WriteString(w[0], `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hold"}}`+"\n"+`{"jsonrpc":"2.0","id":4,"method":"ping"}`+"\n"+owedJudged[0]+"\n"+owedJudged[0][:1000])
	_, _ = io.WriteString(w[1], `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n")
	until(func() bool {
		return len(s.state.open[fromAgent]) == 4 && s.state.out[fromAgent].refers() && s.inputs[fromAgent].handledAll() && s.inputs[fromServer].handledAll()
	})
	s.Leave()
	left := leftover{digests: judge.digests}
	for at := int64(0); ; {
		start, err := unix.Seek(int(kept[0].Fd()), at, unix.SEEK_DATA)
		if err != nil {
			break
		}
		end, _ := unix.Seek(int(kept[0].Fd()), start, unix.SEEK_HOLE)
		part := make([]byte, end-start)
		_, _ = kept[0].ReadAt(part, start)
		left.memory = append(left.memory, extent{start, part})
		at = end
	}
	for i := range left.staged {
		left.staged[i] = make([]byte, 1<<20)
		fd := int(kept[1+i].Fd())
		_ = unix.SetNonblock(fd, true)
		n, _ := unix.Read(fd, left.staged[i])
		left.staged[i] = left.staged[i][:max(n, 0)]
	}
	for _, f := range append(kept, w[0], w[1], r[2], r[3]) {
		f.Close()
	}
	return left
})

func duplicateOf(f *os.File) *os.File {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		panic(err)
	}
	return os.NewFile(uintptr(fd), "kept")
}

// askingJudge forwards what is to be pending output, long lines at once and others a little
// later, and holds lines that contain "hold".
type askingJudge struct {
	fileJudge
	asked   chan gate.Submission // gets the others, which the test forwards; nil if they are forwarded by themselves
	mu      sync.Mutex
	digests map[uint64]string
}

func (j *askingJudge) SubmitFor(_ context.Context, s gate.Submission) {
	switch {
	case !slices.Contains(owedJudged, string(s.Line)):
		v := gate.Verdict{Seq: s.Seq, Move: gate.Deny}
		if bytes.Contains(s.Line, []byte(`"hold"`)) {
			v.Move = gate.Ask
		}
		j.sink(v)
	case len(s.Line) > 64<<10:
		j.forward(s)
	default:
		j.sink(gate.Verdict{Seq: s.Seq, Move: gate.Ask})
		if j.asked != nil {
			j.asked <- s
			return
		}
		time.AfterFunc(time.Millisecond, func() { j.forward(s) })
	}
}

func (j *askingJudge) forward(s gate.Submission) {
	j.mu.Lock()
	j.digests[s.Seq] = fmt.Sprintf("%x", sha256.Sum256(s.Line))
	j.mu.Unlock()
	j.sink(gate.Verdict{Seq: s.Seq, Move: gate.Forward, Line: s.Line})
}

func (j *askingJudge) Passed(seq uint64) (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	digest, ok := j.digests[seq]
	return digest, ok
}

func (j *askingJudge) Told(uint64) bool                                   { return false }
func (j *askingJudge) RecordOutcome(context.Context, uint64, string)      {}
func (j *askingJudge) Refused(context.Context, wire.Side, string, []byte) {}

// playAltered has a daemon recover what was left behind, with altered bytes: each change is an
// offset and a new byte. Offsets behind the memory are in the staging pipes, and the last few
// append something to those. It returns what the sides read.
func playAltered(t testing.TB, changes []byte) (read [2]string) {
	left := leftBehind()
	m, err := mapping.Create(alteredLongest)
	if err != nil {
		t.Fatal(err)
	}
	readTimeout := testTimeout // who reads unaltered output gets all of it, however slow the machine is
	if len(changes) > 0 {
		readTimeout = 10 * time.Millisecond
	}
	total := len(left.staged[0]) + len(left.staged[1]) + 8
	for _, e := range left.memory {
		if _, err := m.File().WriteAt(e.bytes, e.at); err != nil {
			t.Fatal(err)
		}
		total += len(e.bytes)
	}
	staged := [2][]byte{bytes.Clone(left.staged[0]), bytes.Clone(left.staged[1])}
	for ; len(changes) >= 5; changes = changes[5:] {
		at := int(binary.LittleEndian.Uint32(changes)) % total
		alter(m, left.memory, &staged, at, changes[4])
	}
	opened, err := mapping.Open(copyOf(t, m.File()))
	m.Close()
	if err != nil {
		if !errors.Is(err, mapping.ErrCorrupt) {
			t.Error(err)
		}
		return read
	}
	judge := &askingJudge{digests: maps.Clone(left.digests)}
	agentR, agentW := pipeOf(t)
	toAgentR, toAgentW := pipeOf(t)
	serverR, serverW := pipeOf(t)
	toServerR, toServerW := pipeOf(t)
	var reading sync.WaitGroup
	for side, f := range []*os.File{toAgentR, toServerR} {
		reading.Go(func() {
			all, _ := io.ReadAll(f)
			read[side] = string(all)
			if wire.Side(side) == fromServer {
				serverW.Close() // it has read everything and exits
			}
		})
	}
	var staging [2]*pipe.Staging
	for i := range staging {
		if staging[i], err = pipe.NewStaging(); err != nil {
			t.Fatal(err)
		}
		if _, err := staging[i].File().Write(staged[i][:min(len(staged[i]), 64<<10)]); err != nil {
			t.Fatal(err)
		}
	}
	s, err := New(judge, Ends{Agent: Pair{agentR, toAgentW}, Staging: staging[0], Mapping: opened, Server: &Pipes{Pair: Pair{serverR, toServerW}, Staging: staging[1]}, Earlier: earlierOf(judge)},
		slog.New(slog.DiscardHandler))
	if err == nil {
		const soon = 10 * time.Millisecond
		s.answerTimeout, s.readTimeout, s.grace = soon, readTimeout, child.Grace{Stdin: testTimeout, Term: soon}
		ended := make(chan struct{})
		go func() { // ends with the session
			defer close(ended)
			s.Run()
		}()
		agentW.Close()
		select {
		case <-ended:
		case <-time.After(testTimeout):
			t.Error("the session does not end")
			s.Close()
		}
	} else if !errors.Is(err, mapping.ErrCorrupt) {
		t.Error(err)
	}
	agentW.Close()
	reading.Wait()
	toServerR.Close()
	toAgentR.Close()
	for side, all := range read {
		checkJudged(t, side, all)
	}
	return read
}

// alter replaces a byte of what was left behind.
func alter(m *mapping.Mapping, memory []extent, staged *[2][]byte, at int, with byte) {
	for _, e := range memory {
		if at < len(e.bytes) {
			_, _ = m.File().WriteAt([]byte{with}, e.at+int64(at))
			return
		}
		at -= len(e.bytes)
	}
	for i := range staged {
		if at < len(staged[i]) {
			staged[i][at] = with
			return
		}
		at -= len(staged[i])
	}
	switch i := at % 2; {
	case at < 4:
		staged[i] = append(staged[i], with)
	default:
		staged[i] = staged[i][:len(staged[i])*int(with)/256]
	}
}

// checkJudged checks that a side has read nothing that must be judged and was not forwarded,
// even if the side reads consecutive JSON values instead of lines.
func checkJudged(t testing.TB, side int, all string) {
	t.Helper()
	for _, line := range strings.Split(all, "\n") {
		for d := json.NewDecoder(strings.NewReader(line)); ; {
			var value json.RawMessage
			if d.Decode(&value) != nil {
				break
			}
			var message struct{ Method string }
			if json.Unmarshal(value, &message) != nil || message.Method != "tools/call" && message.Method != "sampling/createMessage" {
				continue
			}
			if !slices.Contains(owedJudged, string(value)) {
				t.Errorf("side %d reads %.200s", side, value)
			}
		}
	}
}

// Unaltered output is delivered completely. Otherwise the tests below would prove nothing.
func TestLeftBehind(t *testing.T) {
	read := playAltered(t, nil)
	for i, want := range owedJudged {
		if n := strings.Count(strings.Join(read[:], ""), want+"\n"); n != 1 {
			t.Errorf("line %d was written %d times", i, n)
		}
	}
}

// Whatever is altered in the memory of a session and in its staging pipes, the next daemon
// writes nothing that must be judged and was not forwarded. It continues, or reports that the
// memory was damaged.
//
//gotest:plain hundreds of sessions are restored one after the other
func TestAlteredMemory(t *testing.T) {
	check := leaks(t)
	leftBehind()
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		changes := make([]byte, 5*(r.IntN(8)))
		for i := range changes {
			changes[i] = byte(r.Uint32())
		}
		playAltered(t, changes)
	}
	// The most important bytes are few among so many.
	for at := range uint32(256) {
		for _, with := range []byte{0, 1, 0x7f, 0xff} {
			if r.IntN(8) > 0 {
				continue
			}
			playAltered(t, append(binary.LittleEndian.AppendUint32(nil, at), with))
		}
	}
	for back := range uint32(12) { // the bytes appended to the staging pipes, and the ends of their content
		playAltered(t, append(binary.LittleEndian.AppendUint32(nil, lastOffset()-back), 0x7b))
	}
	check()
}

// lastOffset is the highest offset of a change.
func lastOffset() uint32 {
	left := leftBehind()
	n := len(left.staged[0]) + len(left.staged[1]) + 7
	for _, e := range left.memory {
		n += len(e.bytes)
	}
	return uint32(n)
}

func FuzzAlteredMemory(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{24, 0, 0, 0, 1, 40, 0, 0, 0, 255})
	for back := range uint32(8) {
		f.Add(append(binary.LittleEndian.AppendUint32(nil, lastOffset()-back), 0x7b))
	}
	f.Fuzz(func(t *testing.T, changes []byte) { playAltered(t, changes) })
}
