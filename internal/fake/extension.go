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

// Extension is a folder with an extension in it that behaves well, or not. Its
// program is another one, mostly that of the test, which calls PlayExtension.
type Extension struct {
	Name    string
	Program string   // absolute path of what is run
	Modes   []string // how it behaves, see PlayExtension
	Version string   // 1.0.0 when empty
	// Permissions are those of the manifest; nil for all.
	Permissions []string
	// Manifest is the rest of the manifest, as YAML; empty for hooks that see every
	// tools/call and its result.
	Manifest string
}

const everyHook = `hooks:
  before: {}
  after: {}
restart: {first: 10ms, most: 50ms}
`

// Write makes the folder at dir, which may be there already.
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

// extensionWord is the first argument of a program that is to play an extension.
const extensionWord = "fake-extension"

// PlayExtension plays an extension on the standard streams if the arguments of the
// program say so, and returns its exit code. The arguments after that are how it
// behaves; without any it lets every call go on, and offers a tool for each thing
// that an extension can ask of the daemon.
//
//	modify         puts its mark into arguments and results
//	block          refuses every call
//	malformed      modifies with what is no object
//	hang           does not answer hooks
//	crash          exits when it is asked about a call
//	garbage        answers a hook with what is no message
//	twice          answers a hook twice
//	error          answers a hook with an error
//	crash-start    exits at once
//	hang-start     does not answer initialize
//	version        speaks another version of the protocol
//	no-tools       offers nothing
//	flood          tells things without end, once a call was seen
//	flood-errors   writes to standard error without end
//	flood-host     asks things without end and reads no answer
//	garble         writes what is no frame, once a call was seen
//	too-long       announces a message that is too long, likewise
//	deaf           reads nothing after its handshake
//	stay           does not leave when it is told to
//	fork           leaves a process behind in a session of its own
//	log=FILE       writes down which calls it saw, a line for each
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

	mu     sync.Mutex // guards what follows, and out against mixed frames
	out    io.Writer
	last   int
	open   map[string]chan *message // our requests
	name   string
	config map[string]string // what config.changed said
}

func (x *program) is(mode string) bool { _, ok := x.modes[mode]; return ok }

// start is what is done before anything is read.
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
	// Its command line holds our arguments, by which a test finds it.
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

// frame writes whatever it is given behind a header.
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

// ask asks the daemon and returns its answer, as JSON whatever it is.
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
		_ = x.send(message{Method: method, Params: raw}) // who has gone hears nothing
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
