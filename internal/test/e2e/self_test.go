package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// runCaller answers the question of its first argument with a yes: nothing of
// ours but the messages stands between it and the control socket.
func runCaller() int {
	conn, err := grpc.NewClient("unix:"+filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "thoughtgate/control.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err == nil {
		defer conn.Close()
		approvals := pb.NewApprovalsClient(conn)
		var q *pb.Approval
		if q, err = approvals.Get(background(), &pb.GetApprovalRequest{Id: os.Args[1]}); err == nil {
			_, err = approvals.Decide(background(), &pb.Decision{
				Id: q.GetId(), Subject: q.GetSubject(), Answer: pb.Answer_ANSWER_APPROVE, Surface: "terminal",
			})
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// runTypist types its first argument into the terminal that it runs in, as if its
// owner had, and gives the terminal back to the shell, which then reads that. It
// says in typist.txt whether the system let it.
func runTypist() int {
	said := "typed"
	for _, b := range []byte(os.Args[1]) {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, 0, unix.TIOCSTI, uintptr(unsafe.Pointer(&b))); errno != 0 {
			said = errno.Error()
			break
		}
	}
	if err := os.WriteFile("typist.txt", []byte(said), 0o600); err != nil {
		return 1
	}
	if err := syscall.Kill(0, syscall.SIGTSTP); err != nil {
		return 1
	}
	return 0
}

const askBeforeWriting = `schema: 1
governance: {rules: [{match: "write_*", action: approve}]}
approval: {you: {destination: {type: local}, timeout: 10m}}
`

// selfApprovals are ways in which an agent with a shell tries to say yes to its
// own question. $T is tgctl, $C a program of its own, $OUT where what comes of it
// is to be found, in a last line "exit N".
var selfApprovals = []struct {
	name  string
	needs string // a program
	try   string
	why   string // what the record says of it
	tty   bool   // it had a terminal
}{
	{name: "directly", try: `$T approvals approve $ID >$OUT.tmp 2>&1; echo "exit $?" >>$OUT.tmp; mv $OUT.tmp $OUT`, why: "runs below the wrapped agent custom"},
	{name: "with a cleaned environment", why: "runs below the wrapped agent custom",
		try: `env -i XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR HOME=$HOME $T approvals approve $ID >$OUT.tmp 2>&1; echo "exit $?" >>$OUT.tmp; mv $OUT.tmp $OUT`},
	{name: "forked twice, in a session of its own", needs: "setsid", why: "runs below the wrapped agent custom",
		try: `setsid -f sh -c 'setsid -f sh late.sh' </dev/null >/dev/null 2>&1`},
	{name: "forked twice with a cleaned environment", needs: "setsid", why: "runs below the wrapped agent custom",
		try: `setsid -f env -i T=$T ID=$ID OUT=$OUT XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR HOME=$HOME PATH=$PATH setsid -f sh late.sh </dev/null >/dev/null 2>&1`},
	{name: "typed into a shell on a terminal of its own", needs: "script", why: "runs below the wrapped agent custom", tty: true,
		try: `{ echo "sh late.sh"; until [ -f $OUT ]; do sleep 0.05; done; echo exit; } | script -qc sh /dev/null >/dev/null 2>&1`},
	{name: "in a multiplexer of its own", needs: "tmux", why: "runs below the wrapped agent custom", tty: true,
		try: `env -i T=$T ID=$ID OUT=$OUT XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR HOME=$HOME PATH=$PATH TERM=xterm tmux -S $HOME/mux -f /dev/null new-session -d 'sh late.sh'`},
	{name: "by calls of its own", try: `` + roleVar + `=caller $C $ID >$OUT.tmp 2>&1; echo "exit $?" >>$OUT.tmp; mv $OUT.tmp $OUT`, why: "runs below the wrapped agent custom"},
	{name: "by calls of its own, forked twice with a cleaned environment", needs: "setsid", why: "runs below the wrapped agent custom",
		try: `setsid -f env -i ` + roleVar + `=caller T=$T ID=$ID OUT=$OUT XDG_RUNTIME_DIR=$XDG_RUNTIME_DIR PATH=$PATH setsid -f sh calls.sh $C </dev/null >/dev/null 2>&1`},
	{name: "in a user namespace of its own", needs: "unshare", why: "runs below the wrapped agent custom",
		try: `unshare -U sh late.sh </dev/null >/dev/null 2>&1 || sh late.sh`},
}

// An agent with a shell says yes to its own question. Each way is refused, and on
// record with what the kernel showed of who tried.
func TestAgentDoesNotApproveItself(t *testing.T) {
	needProc(t)
	t.Parallel()
	h := newFixture(t)
	h.rules(askBeforeWriting)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	h.write("work/late.sh", `$T approvals approve $ID >$OUT.tmp 2>&1; echo "exit $?" >>$OUT.tmp; mv $OUT.tmp $OUT`, 0o700)
	h.write("work/calls.sh", `$1 $ID >$OUT.tmp 2>&1; echo "exit $?" >>$OUT.tmp; mv $OUT.tmp $OUT`, 0o700)
	a := h.wrap(config)
	_, result := a.begin(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "x", "text": "y"}})
	q := h.question()
	seen := count(h.log(), "denied", "", "")
	for i, way := range selfApprovals {
		if way.needs != "" {
			if _, err := exec.LookPath(way.needs); err != nil {
				t.Logf("%s: not tried: %v", way.name, err)
				continue
			}
		}
		out := h.path("work", fmt.Sprintf("out%d", i))
		set := fmt.Sprintf("T=%s C=%s ID=%s OUT=%s; export T ID OUT; ", h.path("bin/tgctl"), testBinary(t), q.ID, out)
		_, done := a.begin(order{Shell: set + way.try})
		var said []byte
		if !eventually(func() bool { said, _ = os.ReadFile(out); return len(said) > 0 }, patience) {
			t.Errorf("%s: nothing comes of it", way.name)
			continue
		}
		a.await(done, way.name)
		if !strings.HasSuffix(string(said), "exit 1\n") || !strings.Contains(string(said), "below the wrapped agent") {
			t.Errorf("%s: %s", way.name, said)
		}
		var denied []logged
		for _, l := range h.log() {
			if l.Kind == "denied" {
				denied = append(denied, l)
			}
		}
		if len(denied) != seen+1 {
			t.Errorf("%s: %d refusals are on record, want %d", way.name, len(denied), seen+1)
		} else if l := denied[seen]; !strings.Contains(l.Reason, way.why) || !strings.Contains(l.Reason, q.ID) {
			t.Errorf("%s: the record says %q", way.name, l.Reason)
		} else if p := l.Peer; p == nil || p.PID == 0 || p.Start == 0 || int(p.UID) != os.Getuid() || p.Exe == "" ||
			!slices.ContainsFunc(p.Above, func(above string) bool { return strings.HasSuffix(above, h.path("bin/tgctl")) }) ||
			(p.TTY != "") != way.tty || (p.Foreground != "") != way.tty {
			t.Errorf("%s: the record shows %+v", way.name, p)
		}
		seen = len(denied)
	}
	if got := h.question(); got.ID != q.ID {
		t.Errorf("the question has become %s", got.ID)
	}
	h.tgctl("approvals", "approve", q.ID)
	if r := a.await(result, "an approved call"); r.IsError || r.Error != "" {
		t.Errorf("approved from outside: %+v", r)
	}

	// A program that says it is a terminal, and has none, is a script.
	_, result = a.begin(order{Server: "one", Tool: "write_note", Arguments: map[string]any{"name": "z", "text": "y"}})
	second := h.question()
	cmd := exec.Command(testBinary(t), second.ID)
	cmd.Env = append(slices.Clone(h.env), roleVar+"=caller")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("a yes by calls of our own: %v: %s", err, out)
	}
	a.await(result, "the second call")
	a.leave()
	wantSeen(t, h, q.ID)
	for _, l := range h.log() {
		if l.Kind == "decision" && l.Approval == second.ID && l.Surface != "script" {
			t.Errorf("without a terminal the surface is %q", l.Surface)
		}
	}
}

// wantSeen wants evidence in the record of the decision, and in how it is shown.
func wantSeen(t *testing.T, h *fixture, id string) {
	t.Helper()
	for _, l := range h.log() {
		if l.Kind != "decision" || l.Approval != id {
			continue
		}
		p, us := l.Peer, fmt.Sprintf("%d ", os.Getpid())
		if p == nil || int(p.UID) != os.Getuid() || p.Exe != h.path("bin/tgctl") || len(p.Above) == 0 || !strings.HasPrefix(p.Above[0], us) ||
			!strings.HasPrefix(l.Decider, fmt.Sprintf("pid %d %s", p.PID, p.Exe)) {
			t.Errorf("the decision by %q was seen as %+v", l.Decider, p)
		}
		shown := h.tgctl("audit", "show", fmt.Sprint(l.Seq))
		for _, want := range []string{fmt.Sprintf("seen as     uid %d, pid %d, started at tick ", os.Getuid(), p.PID), "program     ", "terminal    ", "below       " + us} {
			if !strings.Contains(shown, want) {
				t.Errorf("audit show does not say %q:\n%s", want, shown)
			}
		}
		return
	}
	t.Errorf("no decision about %s is on record", id)
}

// What is typed into the agent's own terminal once the agent has left the
// foreground comes from the person's shell, whoever typed it.
func TestAgentTypesIntoItsTerminal(t *testing.T) {
	needProc(t)
	if runtime.GOOS != "linux" {
		t.Skip("job control of another shell")
	}
	t.Parallel()
	h := newFixture(t)
	h.rules(askBeforeWriting)
	config := h.servers(0o600, map[string]entry{"one": h.fakeServer("one")})
	h.startDaemon()
	h.write("work/orders.txt", `{"id":1,"server":"one","tool":"write_note","arguments":{"name":"x","text":"y"}}`+"\n", 0o600)
	typed := "tgctl approvals approve A-1 > typed.tmp 2>&1; echo exit $? >> typed.tmp; mv typed.tmp typed.txt\n"
	h.write("work/typed", strings.TrimSpace(typed), 0o600)
	h.write("work/agent.sh", fmt.Sprintf(`%[1]s=client %[2]s=%[3]s %[4]s < orders.txt > replies.txt 2> client.txt &
client=$!
until [ -e go ]; do sleep 0.05; done
%[1]s=typist %[4]s "$(cat typed)
"
wait $client
`, roleVar, configVar, config, testBinary(t)), 0o700)
	shell := exec.Command("sh", "-i")
	shell.Env = append(slices.Clone(h.env), "PS1=$ ", "TERM=xterm")
	shell.Dir = h.path("work")
	terminal, err := pty.Start(shell)
	if err != nil {
		t.Skipf("no terminal can be had: %v", err)
	}
	ended := make(chan struct{})
	go func() { // what is printed is read, or nobody could print
		defer close(ended)
		buf := make([]byte, 4096)
		for {
			if _, err := terminal.Read(buf); err != nil {
				return
			}
		}
	}()
	defer func() { terminal.Close(); _ = shell.Wait(); <-ended }()
	say := func(line string) {
		if _, err := terminal.WriteString(line + "\n"); err != nil {
			t.Error(err)
		}
	}
	say("tgctl wrap --agent-type custom --config-path " + config + " -- sh agent.sh 2> wrap.txt")
	q := h.question()
	h.write("work/go", "", 0o600)
	var said []byte
	if !eventually(func() bool { said, _ = os.ReadFile(h.path("work/typist.txt")); return len(said) > 0 }, patience) {
		t.Fatal("the agent does not come to type")
	}
	if string(said) != "typed" {
		t.Logf("the system does not let the agent type (%s): its owner does", said)
		say(strings.TrimSpace(typed))
	}
	var got []byte
	if !eventually(func() bool { got, _ = os.ReadFile(h.path("work/typed.txt")); return len(got) > 0 }, patience) {
		t.Fatal("nothing comes of what was typed")
	}
	if !strings.HasSuffix(string(got), "exit 1\n") || !strings.Contains(string(got), "the terminal of the wrapped agent custom") {
		t.Errorf("typed into the agent's terminal: %s", got)
	}
	h.tgctl("approvals", "deny", q.ID)
	say("fg")
	say("exit")
	if !eventually(func() bool { return !strings.Contains(h.tgctl("sessions"), "custom") }, patience) {
		t.Error("the agent does not end")
	}
	wantNever(t, h, "one", "write_note")
	var refused []logged
	for _, l := range h.log() {
		if l.Kind == "denied" {
			refused = append(refused, l)
		}
	}
	if len(refused) != 1 || refused[0].Peer == nil || refused[0].Peer.TTY == "" || refused[0].Peer.Foreground == "" {
		t.Errorf("on record: %+v", refused)
	}
}
