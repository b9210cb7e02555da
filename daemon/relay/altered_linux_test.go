package relay

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// extent is a part of a mapping that was written to.
type extent struct {
	at    int64
	bytes []byte
}

const alteredLongest = 1 << 20

var owedCalls = []string{
	`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long","arguments":{"text":"` + strings.Repeat("x", 300<<10) + `"}}}`,
	`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"short"}}`,
}

// leftBehind is what a daemon leaves behind that owes its server two calls, holds a
// third and has answers to give.
var leftBehind = sync.OnceValues(func() ([]extent, *askingJudge) {
	judge := &askingJudge{digests: map[uint64]string{}}
	var fds [4]*os.File
	fds[0], fds[1], _ = os.Pipe()
	fds[2], fds[3], _ = os.Pipe()
	serverOut, serverIn, _ := os.Pipe()
	agentOut, agentIn, _ := os.Pipe()
	m, err := mapping.Create(alteredLongest)
	if err != nil {
		panic(err)
	}
	copied, _ := unix.FcntlInt(m.File().Fd(), unix.F_DUPFD_CLOEXEC, 0)
	kept := os.NewFile(uintptr(copied), "kept")
	staging, _ := pipe.NewStaging()
	staging2, _ := pipe.NewStaging()
	s, err := New(judge, Ends{Agent: Pair{fds[0], agentIn}, Staging: staging, Mapping: m, Server: &Pipes{Pair: Pair{serverOut, fds[3]}, Staging: staging2}}, slog.New(slog.DiscardHandler))
	if err != nil {
		panic(err)
	}
	full := int(fds[3].Fd()) // the server reads nothing, and its pipe is full
	_ = unix.SetNonblock(full, true)
	for n := 0; n >= 0; {
		n, _ = unix.Write(full, bytes.Repeat([]byte("\n"), 4096))
	}
	go s.Run() // ends with Leave
	lines := []string{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"hold"}}`, `{"jsonrpc":"2.0","id":4,"method":"ping"}`, owedCalls[1]}
	_, _ = io.WriteString(fds[1], strings.Join(lines, "\n")+"\n"+owedCalls[0][:1000])
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(time.Millisecond) { // between two looks
		s.mu.Lock()
		ready := len(s.state.open[fromAgent]) == 3 && s.outputs[fromServer].writing
		s.mu.Unlock()
		if ready {
			break
		}
	}
	s.Leave()
	if len(s.state.open[fromAgent]) != 3 {
		panic("not within a minute")
	}
	var all []extent
	for at := int64(0); ; {
		start, err := unix.Seek(int(kept.Fd()), at, unix.SEEK_DATA)
		if err != nil {
			break
		}
		end, _ := unix.Seek(int(kept.Fd()), start, unix.SEEK_HOLE)
		part := make([]byte, end-start)
		_, _ = kept.ReadAt(part, start)
		all = append(all, extent{start, part})
		at = end
	}
	for _, f := range []*os.File{fds[1], fds[2], serverIn, agentOut, kept} {
		f.Close()
	}
	return all, judge
})

// askingJudge lets pass what does not say "hold".
type askingJudge struct {
	fileJudge
	mu      sync.Mutex
	digests map[uint64]string
}

func (j *askingJudge) SubmitFor(_ context.Context, s gate.Submission) {
	v := gate.Verdict{Seq: s.Seq, Move: gate.Ask}
	if !bytes.Contains(s.Line, []byte(`"hold"`)) && len(s.Line) > 0 {
		v = gate.Verdict{Seq: s.Seq, Move: gate.Deny}
		for _, call := range owedCalls {
			if string(s.Line) == call {
				v = gate.Verdict{Seq: s.Seq, Move: gate.Forward, Line: s.Line}
				j.mu.Lock()
				j.digests[s.Seq] = fmt.Sprintf("%x", sha256.Sum256(s.Line))
				j.mu.Unlock()
			}
		}
	}
	j.sink(v)
}

func (j *askingJudge) Passed(seq uint64) (string, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	digest, ok := j.digests[seq]
	return digest, ok
}

func (j *askingJudge) Told(uint64) bool                                   { return false }
func (j *askingJudge) Outcome(context.Context, uint64, string)            {}
func (j *askingJudge) Refused(context.Context, wire.Side, string, []byte) {}

// playAltered has a daemon take over what was left behind, with bytes that were
// altered: each change is an offset into what there is and a new byte.
func playAltered(t testing.TB, changes []byte) {
	all, left := leftBehind()
	m, err := mapping.Create(alteredLongest)
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, e := range all {
		if _, err := m.File().WriteAt(e.bytes, e.at); err != nil {
			t.Fatal(err)
		}
		total += len(e.bytes)
	}
	for ; len(changes) >= 5; changes = changes[5:] {
		at := int(binary.LittleEndian.Uint32(changes)) % total
		for _, e := range all {
			if at < len(e.bytes) {
				_, _ = m.File().WriteAt(changes[4:5], e.at+int64(at))
				break
			}
			at -= len(e.bytes)
		}
	}
	opened, err := mapping.Open(copyOf(t, m.File()))
	m.Close()
	if err != nil {
		if !errors.Is(err, mapping.ErrDamaged) {
			t.Error(err)
		}
		return
	}
	judge := &askingJudge{digests: left.digests}
	agentR, agentW := pipeOf(t)
	toAgentR, toAgentW := pipeOf(t)
	serverR, serverW := pipeOf(t)
	toServerR, toServerW := pipeOf(t)
	var reading sync.WaitGroup
	var toServer []byte
	reading.Go(func() { toServer, _ = io.ReadAll(toServerR) })
	reading.Go(func() { _, _ = io.Copy(io.Discard, toAgentR) })
	staging, _ := pipe.NewStaging()
	staging2, _ := pipe.NewStaging()
	s, err := New(judge, Ends{Agent: Pair{agentR, toAgentW}, Staging: staging, Mapping: opened, Server: &Pipes{Pair: Pair{serverR, toServerW}, Staging: staging2}, Earlier: earlierOf(judge)},
		slog.New(slog.DiscardHandler))
	if err == nil {
		ended := make(chan struct{})
		go func() { // ends with the session
			defer close(ended)
			s.Run()
		}()
		agentW.Close()
		serverW.Close()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Error("the session does not end")
			s.Close()
		}
	} else if !errors.Is(err, mapping.ErrDamaged) {
		t.Error(err)
	}
	agentW.Close()
	serverW.Close()
	reading.Wait()
	toServerR.Close()
	toAgentR.Close()
	for _, line := range strings.Split(string(toServer), "\n") {
		if strings.HasPrefix(line, `{"jsonrpc":"2.0"`) && strings.Contains(line, "tools/call") && line != owedCalls[0] && line != owedCalls[1] {
			t.Errorf("the server was written %.200s", line)
		}
	}
}

// Whatever is altered in the memory of a session, the next daemon writes no call that
// nobody let through, and goes on or says that it was damaged.
func TestAlteredMemory(t *testing.T) {
	check := leaks(t)
	leftBehind()
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		changes := make([]byte, 5*(r.IntN(8)))
		for i := range changes {
			changes[i] = byte(r.Uint32())
		}
		playAltered(t, changes)
	}
	check()
}

func FuzzAlteredMemory(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{24, 0, 0, 0, 1, 40, 0, 0, 0, 255})
	f.Fuzz(func(t *testing.T, changes []byte) { playAltered(t, changes) })
}
