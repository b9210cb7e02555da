package relay

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

const childVariable = "THOUGHTGATE_TEST_RELAY"

func TestMain(m *testing.M) {
	if record := os.Getenv(childVariable); record != "" {
		if err := relaySession(record); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// relaySession is a daemon with one session, whose descriptors start at 3.
func relaySession(record string) error {
	f := func(fd uintptr) *os.File { return os.NewFile(fd, "inherited") }
	server := &Pipes{Pair: Pair{f(5), f(6)}}
	ends := Ends{Agent: Pair{f(3), f(4)}, Server: server}
	var err error
	if ends.Mapping, err = mapping.Open(f(7)); err != nil {
		return err
	}
	if ends.Staging, err = pipe.TakeStaging(f(8)); err != nil {
		return err
	}
	if server.Staging, err = pipe.TakeStaging(f(9)); err != nil {
		return err
	}
	j, err := openJudge(record)
	if err != nil {
		return err
	}
	ends.Earlier = earlierOf(j)
	s, err := New(j, ends, slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return err
	}
	s.aheadAfter = time.Millisecond
	fmt.Println("serves")
	s.Run()
	return nil
}

// fileJudge forwards everything. It judges slowly if a line contains "slow", and forwards
// lines with "hold" after a while. It records each line that it forwards once, since it first
// reads the records of previous daemons. Like the audit log, it removes a record of which only
// the beginning is there: the system ends a write between two pages if the writer is killed.
type fileJudge struct {
	Judge // for methods that are not called
	mu    sync.Mutex
	file  *os.File
	known map[string]bool
	sink  func(gate.Verdict)
}

func openJudge(path string) (*fileJudge, error) {
	all, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all = all[:bytes.LastIndexByte(all, '\n')+1]
	if err := os.Truncate(path, int64(len(all))); err != nil {
		return nil, err
	}
	j := &fileJudge{known: map[string]bool{}}
	for _, line := range strings.Split(string(all), "\n") {
		j.known[line] = true
	}
	j.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	return j, err
}

func (j *fileJudge) Passed(seq uint64) (digest string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range j.known {
		if rest, is := strings.CutPrefix(line, fmt.Sprintf("forward %d ", seq)); is {
			return rest, true
		}
	}
	return "", false
}

func (j *fileJudge) Told(seq uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.known[fmt.Sprintf("outcome %d ok", seq)] || j.known[fmt.Sprintf("outcome %d not_written", seq)]
}

func (j *fileJudge) write(kind string, seq uint64, about string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	line := fmt.Sprintf("%s %d %s", kind, seq, about)
	if !j.known[line] {
		j.known[line] = true
		fmt.Fprintln(j.file, line)
	}
}

func (j *fileJudge) SubmitFor(_ context.Context, s gate.Submission) {
	forward := func() {
		j.write("forward", s.Seq, fmt.Sprintf("%x", sha256.Sum256(s.Line)))
		j.sink(gate.Verdict{Seq: s.Seq, Move: gate.Forward, Line: s.Line})
	}
	head := s.Line[:min(len(s.Line), 200)]
	if bytes.Contains(head, []byte("slow")) {
		time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) // judging takes this long
	}
	if !bytes.Contains(head, []byte("hold")) {
		forward()
		return
	}
	j.sink(gate.Verdict{Seq: s.Seq, Move: gate.Ask, Approval: "A-1"})
	time.AfterFunc(time.Duration(rand.IntN(5000))*time.Microsecond, forward)
}

func (j *fileJudge) Bind(sink func(gate.Verdict))                     { j.sink = sink }
func (j *fileJudge) DeliverTo(func([]byte))                           {}
func (j *fileJudge) Cancel(uint64)                                    {}
func (j *fileJudge) CountMessages(wire.Side, string, uint64)          {}
func (j *fileJudge) CloseCall(uint64, string)                         {}
func (j *fileJudge) SetUnanswered([]gate.Unanswered, int)             {}
func (j *fileJudge) Profile() gate.Profile                            { return gate.Production }
func (j *fileJudge) ObserveMessage(wire.Side, string, []byte, uint64) {}
func (j *fileJudge) RecordOutcome(_ context.Context, seq uint64, o string) {
	j.write("outcome", seq, o)
}
func (j *fileJudge) RecordMessage(context.Context, wire.Side, string, []byte) {}
func (j *fileJudge) Refused(_ context.Context, _ wire.Side, reason string, prefix []byte) {
	j.write("refused", 0, reason+" "+string(prefix))
}

// However often the daemon is killed, each call is executed once, answered once and recorded
// once.
func TestCallsSurviveKills(t *testing.T) {
	kills := 20
	if n := os.Getenv("THOUGHTGATE_KILLS"); n != "" {
		var err error
		if kills, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, sockets := range []bool{false, true} {
		t.Run(fmt.Sprintf("sockets=%v", sockets), func(t *testing.T) { killSession(t, sockets, kills) })
	}
}

func killSession(t *testing.T, sockets bool, kills int) {
	fromAgent, agentOut := rig.Ends(t, sockets)
	agentIn, toAgent := rig.Ends(t, sockets)
	fromServer, serverOut := rig.Ends(t, sockets)
	serverIn, toServer := rig.Ends(t, sockets)
	m, err := mapping.Create(10 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	inherited := []*os.File{fromAgent, toAgent, fromServer, toServer, m.File()}
	for range 2 {
		staging, err := pipe.NewStaging()
		if err != nil {
			t.Fatal(err)
		}
		defer staging.Close()
		inherited = append(inherited, staging.File())
	}
	record := filepath.Join(t.TempDir(), "record")
	if err := os.WriteFile(record, nil, 0o600); err != nil {
		t.Fatal(err)
	}

	stop, sent := make(chan struct{}), make(chan int, 1)
	go func() { sent <- sendCalls(agentOut, stop) }() // ends with stop
	executed := make(chan map[string]int, 1)
	go func() { executed <- serveCalls(serverIn, serverOut) }() // ends with its input
	answered := make(chan replies, 1)
	go func() { answered <- readReplies(agentIn) }() // ends with its input

	start := func() (cmd *exec.Cmd, out io.Reader) {
		cmd = exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"="+record)
		cmd.Stderr, cmd.ExtraFiles = os.Stderr, inherited
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, out
	}
	begins := 10 * time.Millisecond // estimated time until a daemon serves
	for range kills {
		begun := time.Now()
		cmd, out := start()
		if rand.IntN(4) > 0 { // otherwise it is killed while it starts, or a little later
			if _, err := out.Read(make([]byte, 1)); err != nil {
				t.Errorf("a daemon does not serve: %v", err)
			}
			begins = min(time.Since(begun), 50*time.Millisecond)
		}
		lives := rand.N(2 * begins)
		if rand.IntN(4) == 0 { // long enough for a long line
			lives *= 10
		}
		time.Sleep(lives) // until the moment of the kill, not a wait
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("a daemon ended by itself: %v", err)
		}
	}
	close(stop)
	last, _ := start()
	calls := <-sent
	for _, f := range inherited[:4] {
		f.Close() // the last daemon has the only copies
	}
	ids, replies := <-executed, <-answered
	if err := last.Wait(); err != nil {
		t.Errorf("the last daemon: %v", err)
	}
	refused := replies.with[callRefused]
	if len(ids) == 0 || len(ids)+refused != calls || len(replies.ids) != calls {
		t.Errorf("%d calls were sent, %d executed, %d answered, %d refused", calls, len(ids), len(replies.ids), refused)
	}
	once(t, "executed", ids)
	once(t, "answered", replies.ids)
	if two := refused + replies.with[answerRefused]; 2*two > kills {
		t.Errorf("%d lines were refused for having ended two daemons each, of %d", two, kills)
	}
	for with, n := range replies.with {
		if with != callRefused && with != answerRefused {
			t.Errorf("%d calls were answered with %s", n, with)
		}
	}
	checkRecord(t, record, calls, refused)
	t.Logf("%d calls over %d kills, %d of them and the answers to %d had ended two daemons", calls, kills, refused, replies.with[answerRefused])
}

// checkRecord checks the records of calls, of which that many were refused.
func checkRecord(t *testing.T, record string, calls, refused int) {
	t.Helper()
	all, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	lines, first := map[string]int{}, map[string]string{}
	outcomes := 0
	for _, line := range strings.Split(strings.TrimSpace(string(all)), "\n") {
		kind, rest, _ := strings.Cut(line, " ")
		seq, _, _ := strings.Cut(rest, " ")
		if kind == "refused" {
			if !strings.Contains(line, "twice while it handled") {
				t.Error(line)
			}
			continue
		}
		of := kind + " " + seq
		if lines[of]++; lines[of] > 1 {
			t.Errorf("recorded: %.200q, and then %.200q", first[of], line)
		}
		first[of] = line
		if kind == "outcome" {
			outcomes++
		}
	}
	once(t, "recorded", lines)
	// A refused call may have been judged by one of the daemons that it ended.
	if len(lines) < 2*(calls-refused) || len(lines) > 2*calls || outcomes < calls-refused || outcomes > calls {
		t.Errorf("%d calls have %d records, of which %d say what came of it", calls, len(lines), outcomes)
	}
}

func once(t *testing.T, what string, by map[string]int) {
	t.Helper()
	for id, n := range by {
		if n != 1 {
			t.Errorf("%s was %s %d times", id, what, n)
		}
	}
}

// sendCalls writes calls of all lengths until stop is closed, and returns their number.
func sendCalls(w io.WriteCloser, stop <-chan struct{}) int {
	defer w.Close()
	for i := 1; ; i++ {
		select {
		case <-stop:
			return i - 1
		default:
		}
		size, name := 20+rand.IntN(300), "echo"
		switch rand.IntN(150) {
		case 0:
			size = 1<<20 + rand.IntN(8<<20)
		case 1, 2, 3:
			size = 60<<10 + rand.IntN(20<<10)
		case 4, 5, 6, 7, 8, 9:
			name = "hold"
		case 10, 11, 12:
			name = "slow"
		}
		if _, err := fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`+"\n",
			i, name, strings.Repeat(string(rune('a'+i%26)), size)); err != nil {
			return i - 1
		}
	}
}

// serveCalls answers each call with its length, and counts each id.
func serveCalls(r io.Reader, w io.WriteCloser) map[string]int {
	defer w.Close()
	ids := map[string]int{}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return ids
		}
		id := idIn(line)
		ids[id]++
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`+"\n", id, strings.Repeat("r", len(line)/2))
	}
}

// The agent's answer for a line that has ended two daemons.
const (
	callRefused   = "Not executed: the daemon ended twice"
	answerRefused = "the answer was refused: the daemon ended twice"
)

// replies are the answers that an agent got.
type replies struct {
	ids  map[string]int
	with map[string]int // number of each error
}

// readReplies counts the answers that the agent reads.
func readReplies(r io.Reader) replies {
	all := replies{map[string]int{}, map[string]int{}}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return all
		}
		all.ids[idIn(line)]++
		switch {
		case bytes.Contains(line, []byte(`"result"`)):
		case bytes.Contains(line, []byte(callRefused)):
			all.with[callRefused]++
		case bytes.Contains(line, []byte(answerRefused)):
			all.with[answerRefused]++
		default:
			all.with[string(line[:min(len(line), 200)])]++
		}
	}
}

func idIn(line []byte) string {
	_, rest, _ := bytes.Cut(line, []byte(`"id":`))
	id, _, _ := bytes.Cut(rest, []byte(`,`))
	return string(id)
}
