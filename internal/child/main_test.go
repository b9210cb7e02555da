package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/proc"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// The test binary plays the children in the role that roleEnv names.
const (
	roleEnv = "CHILD_TEST_ROLE"
	tagEnv  = "CHILD_TEST_TAG" // marks what a test started, however far it moved
)

var roles = map[string]func(){
	"stubborn":  stubborn,
	"daemonize": daemonize,
	"middle":    middle,
	"wander":    wander,
	"plain":     plain,
	"deserted":  deserted,
	"obedient":  obedient,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleEnv); role != "" {
		roles[role]()
		return
	}
	stop, err := AdoptOrphans()
	if err != nil && runtime.GOOS == "linux" {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2) // starts the permanent goroutine for signals
	rig.ResetSIGHUP()
	code := m.Run()
	stop()
	os.Exit(code)
}

// stubborn does not exit when asked to. It says "ready" when it has started.
func stubborn() {
	signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	fmt.Println("ready", os.Getpid())
	time.Sleep(time.Hour) // not select: the runtime would call that a deadlock
}

// obedient exits when asked to.
func obedient() {
	fmt.Println("ready", os.Getpid())
	time.Sleep(time.Hour)
}

// daemonize starts a stubborn process through one that creates a session of its own and exits,
// as daemons do, and runs until its input ends.
func daemonize() {
	cmd := again("middle")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdout = os.Stdout
	if err := cmd.Run(); err != nil {
		fmt.Println("middle:", err)
	}
	io.Copy(io.Discard, os.Stdin)
}

func middle() {
	cmd := again("stubborn")
	cmd.Stdout = os.Stdout
	if os.Getenv("CHILD_TEST_SCRUB") != "" {
		cmd.Env = []string{roleEnv + "=stubborn", "GORACE=atexit_sleep_ms=0", tagEnv + "=" + os.Getenv(tagEnv)}
	}
	if err := cmd.Start(); err != nil {
		fmt.Println("stubborn:", err)
	}
}

// wander moves to the group of its parent and does not exit.
func wander() {
	parent, err := syscall.Getpgid(os.Getppid())
	if err == nil {
		err = syscall.Setpgid(0, parent)
	}
	if err != nil {
		fmt.Println("setpgid:", err)
		return
	}
	stubborn()
}

func again(role string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	return cmd
}

// role returns the Spec that starts this binary in a role; extra is added to its environment.
func role(t *testing.T, name string, extra ...string) Spec {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Spec{Command: exe, Env: append(testEnv(t), append(extra, roleEnv+"="+name)...)}
}

func script(t *testing.T, text string) Spec {
	t.Helper()
	return Spec{Command: "sh", Args: []string{"-c", text}, Env: testEnv(t)}
}

// testEnv returns the environment for what a test starts. When the test ends, no process with
// its tag may be left, and no goroutine or descriptor.
func testEnv(t *testing.T) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0", tagEnv + "=" + tagOf(t)}
}

func tagOf(t *testing.T) string {
	return strconv.Itoa(os.Getpid()) + "/" + t.Name()
}

// noneLeft must be called at the start of each test that starts processes.
func noneLeft(t *testing.T) {
	t.Helper()
	goroutines, files := runtime.NumGoroutine(), openFiles()
	t.Cleanup(func() {
		eventually(t, "a process is left", func() string { return fmt.Sprint(tagged(t)) }, "[]")
		eventually(t, "a child is left", func() string { return fmt.Sprint(ownChildren()) }, "[]")
		deadline := time.Now().Add(time.Minute)
		for runtime.NumGoroutine() > goroutines || openFiles() > files {
			if time.Now().After(deadline) {
				buf := make([]byte, 1<<16)
				t.Errorf("goroutines: had %d, have %d; descriptors: had %d, have %d\n%s", goroutines,
					runtime.NumGoroutine(), files, openFiles(), buf[:runtime.Stack(buf, true)])
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// tagged returns the processes with the test's tag.
func tagged(t *testing.T) []int {
	var pids []int
	for _, p := range everyProcess() {
		if env, _ := proc.Environ(p.PID); !p.Zombie && slices.Contains(env, tagEnv+"="+tagOf(t)) {
			pids = append(pids, int(p.PID))
		}
	}
	return pids
}

// ownChildren returns the children of this process, including zombies.
func ownChildren() []int {
	var pids []int
	for _, p := range everyProcess() {
		if int(p.PPID) == os.Getpid() {
			pids = append(pids, int(p.PID))
		}
	}
	return pids
}

// needsOrphans skips tests that need a process which adopts orphans.
func needsOrphans(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this platform gives orphans to its first process")
	}
}

// needsProc skips tests that need Linux.
func needsProc(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this platform has no /proc")
	}
}

func openFiles() int {
	names, _ := os.ReadDir("/dev/fd")
	return len(names)
}

func eventually(t *testing.T, what string, got func() string, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for got() != want {
		if time.Now().After(deadline) {
			t.Errorf("%s: got %s, want %s", what, got(), want)
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func start(t *testing.T, spec Spec) *Child {
	t.Helper()
	c, err := Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Stop(t.Context(), Grace{})
		c.Stdout().Close()
		c.Stderr().Close()
	})
	return c
}

// line reads one line from the child, which shows that the child has reached a certain point.
func line(t *testing.T, in *bufio.Reader) string {
	t.Helper()
	got := make(chan string, 1)
	go func() {
		s, _ := in.ReadString('\n')
		got <- strings.TrimSpace(s)
	}()
	select {
	case s := <-got:
		return s
	case <-time.After(time.Minute):
		t.Fatal("no line from the child in 20 s")
		return ""
	}
}

// readyPID reads the line with which a stubborn process reports that it has started.
func readyPID(t *testing.T, in *bufio.Reader) int {
	t.Helper()
	s := line(t, in)
	pid, err := strconv.Atoi(strings.TrimPrefix(s, "ready "))
	if err != nil {
		t.Fatalf("the child said %q", s)
	}
	return pid
}

func lives(pid int) bool {
	p, ok := readProc(pid)
	return ok && !p.Zombie
}

func sorted(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }

func readProc(pid int) (proc.Info, bool) {
	p, err := proc.Read(int32(pid))
	return p, err == nil
}

func everyProcess() []proc.Info {
	all, _ := proc.All()
	return all
}
