package relay

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
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

// testTimeout is how long a step may take before a test fails.
const testTimeout = time.Minute

// stage is a session between an agent, a server and a judge that the test plays. It also holds
// what is kept for the next daemon.
type stage struct {
	t       testing.TB
	how     play
	judge   *playedJudge
	session *Session
	ended   chan struct{}
	kept    [4]*os.File // from and to the agent, from and to the server
	memory  *mapping.Mapping
	staging [2]*pipe.Staging
	in      [2]*os.File    // what each side writes to
	lines   [2]chan string // lines to write there, whether they are read or not
	out     [2]chan string // what each side reads; closed at the end
	open    []*submission  // submitted, without a final verdict
	early   []*submission  // submitted before they were expected
	torn    bool
	opened  chan string // requests with which a shared server is resumed

	mu     sync.Mutex
	joined sync.Cond
	member *playedMember // of a shared server
}

// playedMember is a membership of a shared server.
type playedMember struct {
	stage  *stage
	client Client
}

func (m *playedMember) Write(_ context.Context, line []byte) error {
	m.stage.out[fromServer] <- string(line)
	return nil
}

func (m *playedMember) Resume(initialize []byte) <-chan struct{} {
	m.stage.opened <- string(initialize)
	made := make(chan struct{})
	close(made)
	return made
}

func (m *playedMember) Leave() {}

// shared is a server that ends with each daemon.
func (s *stage) shared() *InMemory {
	return &InMemory{Join: func(_ context.Context, c Client) (Member, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.member = &playedMember{stage: s, client: c}
		s.joined.Broadcast()
		return s.member, nil
	}}
}

// deliver has the shared server send a line.
func (s *stage) deliver(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.member == nil {
		s.joined.Wait()
	}
	s.member.client.Deliver([]byte(line))
}

func newStage(t testing.TB, how play) *stage {
	t.Helper()
	check := leaks(t)
	s := &stage{t: t, how: how, judge: newPlayedJudge(), opened: make(chan string, 16)}
	s.joined.L = &s.mu
	var outs [2]*os.File
	s.kept[0], s.in[fromAgent] = pipeOf(t)
	outs[fromAgent], s.kept[1] = pipeOf(t)
	s.kept[2], s.in[fromServer] = pipeOf(t)
	outs[fromServer], s.kept[3] = pipeOf(t)
	var err error
	if s.memory, err = mapping.Create(cmp.Or(how.longest, 16<<20)); err != nil {
		t.Fatal(err)
	}
	for i := range s.staging {
		if s.staging[i], err = pipe.NewStaging(); err != nil {
			t.Skip(err)
		}
	}
	if how.shared { // output to the server does not go through a pipe
		outs[fromServer].Close()
		s.out[fromServer] = make(chan string, 1024)
	}
	var reading sync.WaitGroup
	for side, f := range outs {
		if how.shared && wire.Side(side) == fromServer {
			continue
		}
		s.out[side] = make(chan string, 1024)
		reading.Go(func() {
			defer close(s.out[side])
			defer f.Close()
			lines := bufio.NewReaderSize(f, 64<<10)
			for {
				line, err := lines.ReadString('\n')
				if err != nil {
					if line != "" {
						s.out[side] <- "cut: " + line
					}
					return
				}
				s.out[side] <- strings.TrimSuffix(line, "\n")
			}
		})
	}
	for side, f := range s.in {
		lines := make(chan string, 1024)
		s.lines[side] = lines
		reading.Go(func() {
			defer f.Close()
			for line := range lines {
				_, _ = f.WriteString(line) // there may be no reader
			}
		})
	}
	s.begin()
	t.Cleanup(func() {
		s.judge.setHeard()
		s.session.Close()
		<-s.ended
		s.letGo()
		for _, lines := range s.lines {
			close(lines)
		}
		if how.shared {
			close(s.out[fromServer])
		}
		for _, c := range s.out {
			for range c { // until it is closed
			}
		}
		reading.Wait()
		check()
	})
	return s
}

// closeDescriptor closes what is kept for the next daemon.
func (s *stage) letGo() {
	for i, f := range s.kept {
		if f != nil {
			f.Close()
			s.kept[i] = nil
		}
	}
	for i := range s.staging {
		if s.staging[i] != nil {
			s.staging[i].Close()
			s.staging[i] = nil
		}
	}
	if s.memory != nil {
		s.memory.Close()
		s.memory = nil
	}
}

// begin starts a daemon with copies of what is kept.
func (s *stage) begin() {
	s.t.Helper()
	s.run(s.ends())
}

func (s *stage) run(ends Ends) {
	s.t.Helper()
	s.runWith(ends, func(*Session) {})
}

func (s *stage) runWith(ends Ends, with func(*Session)) {
	s.t.Helper()
	session, err := New(s.judge, ends, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	with(session)
	ended := make(chan struct{})
	go func() { // ends with the session
		defer close(ended)
		session.Run()
	}()
	s.session, s.ended = session, ended
}

func (s *stage) ends() Ends {
	s.t.Helper()
	var fds [4]*os.File
	for i, f := range s.kept {
		fds[i] = copyOf(s.t, f)
	}
	m, err := mapping.Open(copyOf(s.t, s.memory.File()))
	if err != nil {
		s.t.Fatal(err)
	}
	var staging [2]*pipe.Staging
	for i := range staging {
		if staging[i], err = pipe.TakeStaging(copyOf(s.t, s.staging[i].File())); err != nil {
			s.t.Fatal(err)
		}
	}
	if s.how.shared {
		fds[2].Close()
		fds[3].Close()
		staging[1].Close()
		return Ends{Agent: Pair{fds[0], fds[1]}, Staging: staging[0], Mapping: m, Server: s.shared(), Earlier: earlierOf(s.judge)}
	}
	return Ends{
		Agent: Pair{fds[0], fds[1]}, Staging: staging[0], Mapping: m,
		Server: &Pipes{Pair: Pair{fds[2], fds[3]}, Staging: staging[1]}, Earlier: earlierOf(s.judge),
	}
}

// restart has the next daemon take over.
func (s *stage) restart() {
	s.t.Helper()
	s.session.Leave()
	select {
	case <-s.ended:
	case <-time.After(testTimeout):
		s.t.Fatal("a session was not left")
	}
	s.mu.Lock()
	s.member = nil
	s.mu.Unlock()
	s.begin()
	for _, m := range s.open {
		if s.judge.unsaid(m) {
			s.judgedAgain(m)
		}
	}
}

// judgedAgain waits until the next daemon judges a line that the previous one was judging. The
// next daemon reads both sides at once: otherwise what the other side writes from now on could
// be handled before that line, as if it had been written first.
func (s *stage) judgedAgain(m *submission) {
	s.t.Helper()
	err := s.until("the line is judged again", func() bool {
		w := s.session.beingJudged[m.Side]
		return w != nil && w.seq == m.Seq || s.session.state.waiting[m.Seq] != nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// judging reports whether a line is being judged.
func (s *stage) judging() bool { return slices.ContainsFunc(s.open, s.judge.unsaid) }

func copyOf(t testing.TB, f *os.File) *os.File {
	t.Helper()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "copy of "+f.Name())
}

func pipeOf(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// leaks returns a check that there are no more goroutines and descriptors than now.
func leaks(t testing.TB) (check func()) {
	t.Helper()
	r, w := pipeOf(t) // the poller is created with the first pipe, and stays
	r.Close()
	w.Close()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	return func() {
		end := time.Now().Add(testTimeout)
		for runtime.NumGoroutine() > goroutines || openFiles() > files {
			if time.Now().After(end) {
				buf := make([]byte, 1<<20)
				t.Errorf("%d goroutines and %d descriptors are left, of %d and %d before\n%s",
					runtime.NumGoroutine(), openFiles(), goroutines, files, buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(time.Millisecond) // between two checks
		}
	}
}

func openFiles() int {
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// playedJudge returns the verdicts that the test determines. Like the gate, it returns the
// same verdict again for a line that is submitted again.
type playedJudge struct {
	submits      chan *submission
	cancels      chan uint64
	observations chan string
	outcomes     chan string

	mu      sync.Mutex
	sink    func(gate.Verdict)
	line    func([]byte)
	known   map[uint64]*submission // by seq
	numbers map[uint64]uint64      // by seq, in the order in which lines were first submitted
	deaf    chan struct{}          // nil: Hear returns at once
	stays   bool                   // it continues to judge what is cancelled
	digests map[uint64]string      // of what was forwarded, by seq
	over    map[uint64]bool        // its outcome was reported
	silent  []gate.Unanswered
	more    int
}

// earlierOf looks up what a judge has recorded.
func earlierOf(j interface {
	// Passed returns the digest of what was forwarded.
	Passed(seq uint64) (digest string, ok bool)
	// Told reports whether its outcome was reported.
	Told(seq uint64) bool
}) Earlier {
	return func(seqs []uint64) (passed map[uint64]string, told map[uint64]bool) {
		passed, told = map[uint64]string{}, map[uint64]bool{}
		for _, seq := range seqs {
			passed[seq], _ = j.Passed(seq)
			told[seq] = j.Told(seq)
		}
		return passed, told
	}
}

func (j *playedJudge) Passed(seq uint64) (digest string, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	digest, ok = j.digests[seq]
	return digest, ok
}

type submission struct {
	gate.Submission
	n         uint64
	spoken    chan struct{} // closed when there is a verdict on it
	said      gate.Verdict  // last verdict; no move: none
	cancelled bool
}

func newPlayedJudge() *playedJudge {
	return &playedJudge{
		submits: make(chan *submission, 256), cancels: make(chan uint64, 64), observations: make(chan string, 4096), outcomes: make(chan string, 4096),
		known: map[uint64]*submission{}, numbers: map[uint64]uint64{}, digests: map[uint64]string{}, over: map[uint64]bool{},
	}
}

func (j *playedJudge) SubmitFor(ctx context.Context, s gate.Submission) {
	j.mu.Lock()
	m := j.known[s.Seq]
	if m == nil {
		if j.numbers[s.Seq] == 0 {
			j.numbers[s.Seq] = uint64(len(j.numbers) + 1)
		}
		m = &submission{Submission: s, n: j.numbers[s.Seq], spoken: make(chan struct{})}
		j.known[s.Seq] = m
		j.submits <- m
	} else if m.said.Move != 0 {
		v := m.said
		j.sink(v)
	}
	j.mu.Unlock()
	select {
	case <-m.spoken:
	case <-ctx.Done():
	}
}

// say sends a verdict on a line.
func (j *playedJudge) say(m *submission, v gate.Verdict) {
	j.mu.Lock()
	defer j.mu.Unlock()
	first := m.said.Move == 0
	m.said = v
	if v.Move == gate.Forward {
		j.digests[v.Seq] = fmt.Sprintf("%x", sha256.Sum256(v.Line))
	}
	j.sink(v)
	if first {
		close(m.spoken)
	}
}

// unsaid reports whether there is no verdict on a line yet.
func (j *playedJudge) unsaid(m *submission) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return m.said.Move == 0
}

// number returns the number of a line, in the order of arrival.
func (j *playedJudge) number(seq uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.numbers[seq]
}

// forget removes all lines.
func (j *playedJudge) forget() {
	j.mu.Lock()
	defer j.mu.Unlock()
	clear(j.known)
}

func (j *playedJudge) setDeaf() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deaf = make(chan struct{})
}

func (j *playedJudge) setHeard() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.deaf != nil {
		close(j.deaf)
		j.deaf = nil
	}
}

func (j *playedJudge) Bind(sink func(gate.Verdict)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.sink = sink
}

func (j *playedJudge) DeliverTo(line func([]byte)) { j.line = line }

func (j *playedJudge) Cancel(seq uint64) {
	j.mu.Lock()
	m := j.known[seq]
	if m == nil || j.stays || m.cancelled || m.said.Move == gate.Forward || m.said.Move == gate.Deny {
		j.mu.Unlock()
		return
	}
	m.cancelled = true
	if m.said.Move == 0 { // it is judged no further, and the next daemon finds that in the record
		m.said = gate.Verdict{Seq: seq, Move: gate.Deny}
		close(m.spoken)
	}
	cancels := j.cancels
	j.mu.Unlock()
	cancels <- m.n
}

// setStays makes it continue to judge what is cancelled.
func (j *playedJudge) setStays() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stays = true
}

// setCancels makes it report cancellations in another channel.
func (j *playedJudge) setCancels(c chan uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.cancels = c
}

func (j *playedJudge) ObserveMessage(_ wire.Side, method string, line []byte, _ uint64) {
	j.mu.Lock()
	deaf := j.deaf
	j.mu.Unlock()
	j.observations <- fmt.Sprintf("%s %s", method, line)
	if deaf != nil {
		<-deaf
	}
}

func (j *playedJudge) Refused(_ context.Context, _ wire.Side, reason string, prefix []byte) {
	j.observations <- fmt.Sprintf("refused: %s: %s", reason, prefix)
}

func (j *playedJudge) RecordOutcome(_ context.Context, seq uint64, outcome string) {
	j.mu.Lock()
	j.over[seq] = true
	j.mu.Unlock()
	j.outcomes <- fmt.Sprintf("call:%d outcome:OUTCOME_%s", j.number(seq), strings.ToUpper(outcome))
}

func (j *playedJudge) RecordMessage(context.Context, wire.Side, string, []byte) {} // it was observed
func (j *playedJudge) CountMessages(wire.Side, string, uint64)                  {}

func (j *playedJudge) CloseCall(uint64, string) {}

func (j *playedJudge) SetUnanswered(open []gate.Unanswered, more int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.silent, j.more = open, more
}

// oldest returns since when the first of them has waited.
func (j *playedJudge) oldest() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.silent[0].Since
}

// unanswered returns the requests of the last report.
func (j *playedJudge) unanswered() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var all strings.Builder
	for _, u := range j.silent {
		fmt.Fprintf(&all, "%d of %s: %s %s, ", u.Call, sideName(u.Side), u.Method, u.ID)
	}
	return fmt.Sprintf("%sand %d", all.String(), j.more)
}

func (j *playedJudge) Told(seq uint64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.over[seq]
}
func (j *playedJudge) Profile() gate.Profile { return gate.Production }

// until waits until so returns true. so is called while the session does not change.
func (s *stage) until(what string, so func() bool) error {
	for end := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) { // between two checks
		s.session.mu.Lock()
		is := so()
		s.session.mu.Unlock()
		if is {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", testTimeout, what)
		}
	}
}
