package fake

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// Extension is the folder of an extension, which behaves well or not. Its program is usually
// the test binary, which calls PlayExtension.
type Extension struct {
	Name    string
	Program string   // absolute path
	Modes   []string // its behavior, see PlayExtension
	Version string   // empty means 1.0.0
	// Permissions of the manifest; nil means all.
	Permissions []string
	// Manifest is the rest of the manifest, as YAML; empty means hooks for every tools/call and
	// its result.
	Manifest string
}

const everyHook = `hooks:
  before: {}
  after: {}
restart: {first: 10ms, most: 50ms}
`

// Write creates the folder at dir, which may exist.
func (e Extension) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if e.Version == "" {
		e.Version = "1.0.0"
	}
	if e.Permissions == nil {
		e.Permissions = []string{"hooks.before", "hooks.after", "tools", "providers", "commands", "memory.read", "memory.write", "config.write", "config.subscribe"}
	}
	if e.Manifest == "" {
		e.Manifest = everyHook
	}
	text := fmt.Sprintf("schema: 1\nname: %s\nversion: %q\ndescription: A fake for tests\nprotocol: 1\ncommand: sh\nargs: [run.sh, %q, %s]\npermissions: [%s]\n%s",
		e.Name, e.Version, e.Program, strings.Join(append([]string{extensionWord}, e.Modes...), ", "), strings.Join(e.Permissions, ", "), e.Manifest)
	if err := os.WriteFile(filepath.Join(dir, "run.sh"), []byte("GORACE=atexit_sleep_ms=0 exec \"$@\"\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "extension.yaml"), []byte(text), 0o600)
}

// extensionWord is the first argument of a program that plays an extension.
const extensionWord = "fake-extension"

// PlayExtension runs an extension on the standard streams if args say so, and returns its
// exit code. The further arguments are its modes. Without any it forwards every call and
// offers a tool for each request that an extension can make of the daemon.
//
//	modify         adds its mark to arguments and results
//	block          denies every call
//	malformed      modifies with something that is no object
//	hang           does not answer hooks
//	crash          exits when a hook is called
//	garbage        answers a hook with something that is no message
//	twice          answers a hook twice
//	error          answers a hook with an error
//	crash-start    exits at once
//	hang-start     does not answer initialize
//	version        speaks another version of the protocol
//	no-tools       offers nothing
//	flood          sends notifications without end, after the first call
//	flood-errors   writes to standard error without end
//	flood-host     sends requests without end and reads no answer
//	garble         writes something that is no frame, after the first call
//	too-long       announces a message that is too long, after the first call
//	deaf           reads nothing after its handshake
//	stay           does not exit when it is told to
//	fork           leaves a process behind in a session of its own
//	log=FILE       logs the calls that it saw, one a line
func PlayExtension(args []string) (code int, played bool) {
	if len(args) == 0 || args[0] != extensionWord {
		return 0, false
	}
	x := &program{in: bufio.NewReader(os.Stdin), out: os.Stdout, modes: map[string]string{}, open: map[string]chan *message{}, config: map[string]string{}}
	for _, mode := range args[1:] {
		name, value, _ := strings.Cut(mode, "=")
		x.modes[name] = value
	}
	if err := x.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 3, true
	}
	err := x.run()
	if x.is("stay") {
		select {}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

type program struct {
	in    *bufio.Reader
	modes map[string]string

	mu     sync.Mutex // guards the fields below, and serializes frames to out
	out    io.Writer
	last   int
	open   map[string]chan *message // our pending requests
	name   string
	config map[string]string // from config.changed
}

func (x *program) is(mode string) bool { _, ok := x.modes[mode]; return ok }

// start does what comes before the first read.
func (x *program) start() error {
	if x.is("crash-start") {
		return errors.New("told to crash at once")
	}
	if x.is("stay") {
		signal.Ignore(syscall.SIGTERM)
	}
	if x.is("fork") {
		if err := leaveBehind(); err != nil {
			return err
		}
	}
	if x.is("flood-errors") {
		go func() {
			for {
				if _, err := fmt.Fprintln(os.Stderr, strings.Repeat("complaint \x1b[31m", 100)); err != nil {
					return
				}
			}
		}()
	}
	return nil
}

// leaveBehind starts a process that outlives this one, in a session of its own.
func leaveBehind() error {
	// The command line contains our arguments, by which a test finds the process.
	p, err := os.StartProcess("/bin/sh", append([]string{"sh", "-c", "sleep 600 & wait"}, os.Args[1:]...), &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return err
	}
	return p.Release()
}

func (x *program) run() error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for {
		m, err := x.read()
		if err != nil {
			return err
		}
		switch {
		case m.Method == "":
			x.settle(m)
		case m.ID == nil:
			x.told(m)
		default:
			if m.Method == "initialize" {
				x.answer(ctx, m)
				if x.is("deaf") {
					select {}
				}
				continue
			}
			go x.answer(ctx, m)
		}
	}
}

// read reads one frame.
func (x *program) read() (*message, error) {
	length := -1
	for {
		line, err := x.in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		if value, ok := strings.CutPrefix(line, "Content-Length:"); ok {
			if length, err = strconv.Atoi(strings.TrimSpace(value)); err != nil {
				return nil, err
			}
		}
	}
	if length < 0 {
		return nil, errors.New("a frame without Content-Length")
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(x.in, body); err != nil {
		return nil, err
	}
	m := &message{}
	return m, json.Unmarshal(body, m)
}

func (x *program) send(m message) error {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return x.frame(body)
}

// frame writes body, whatever it is, after a header.
func (x *program) frame(body []byte) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	_, err := x.out.Write(append(fmt.Appendf(nil, "Content-Length: %d\r\n\r\n", len(body)), body...))
	return err
}

func (x *program) settle(m *message) {
	x.mu.Lock()
	waiting := x.open[string(m.ID)]
	delete(x.open, string(m.ID))
	x.mu.Unlock()
	if waiting != nil {
		waiting <- m
	}
}

// ask sends a request to the daemon and returns the answer as JSON, whatever it is.
func (x *program) ask(method string, params json.RawMessage) (json.RawMessage, error) {
	answer := make(chan *message, 1)
	x.mu.Lock()
	x.last++
	id := json.RawMessage(strconv.Itoa(x.last))
	x.open[string(id)] = answer
	x.mu.Unlock()
	if err := x.send(message{ID: id, Method: method, Params: params}); err != nil {
		return nil, err
	}
	m := <-answer
	if m.Error != nil {
		return nil, m.Error
	}
	return m.Result, nil
}

func (x *program) tell(method string, params any) {
	raw, err := json.Marshal(params)
	if err == nil {
		_ = x.send(message{Method: method, Params: raw}) // the daemon may have ended
	}
}

func (x *program) told(m *message) {
	var changed struct{ Key, Value string }
	if m.Method != "config.changed" || json.Unmarshal(m.Params, &changed) != nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.config[changed.Key] = changed.Value
}
