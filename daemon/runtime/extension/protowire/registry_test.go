package protowire_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/extension"
	"github.com/thoughtgate/thoughtgated/daemon/runtime/supervise"
	"github.com/thoughtgate/thoughtgated/daemon/store"
	"github.com/thoughtgate/thoughtgated/internal/child"
	"github.com/thoughtgate/thoughtgated/internal/record"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

// asLiar is the first argument of a test binary that plays a faulty extension; the second is
// the kind of fault.
const asLiar = "protowire-liar"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == asLiar {
		(&liar{in: os.Stdin, out: os.Stdout, mode: os.Args[2]}).run()
		return
	}
	stop, _ := child.AdoptOrphans() // without it orphans go unnoticed, as on macOS
	code := m.Run()
	stop()
	os.Exit(code)
}

// liar is an extension that writes its frames itself, one of them faulty.
type liar struct {
	in   io.Reader
	out  io.Writer
	mode string
	last uint64 // id of the last request about a call
}

func (l *liar) run() {
	for {
		var length [4]byte
		if _, err := io.ReadFull(l.in, length[:]); err != nil {
			return
		}
		frame := make([]byte, binary.BigEndian.Uint32(length[:]))
		if _, err := io.ReadFull(l.in, frame); err != nil {
			return
		}
		var f pb.Frame
		if err := proto.Unmarshal(frame, &f); err != nil {
			return
		}
		switch f.Body.(type) {
		case *pb.Frame_Hello:
			l.greet(f.Id)
		case *pb.Frame_Before:
			l.last = f.Id
			l.judge(f.Id)
		case *pb.Frame_Shutdown:
			l.say(&pb.Frame{Id: f.Id, Body: &pb.Frame_ShutdownAnswer{ShutdownAnswer: &pb.ShutdownAnswer{}}})
		case *pb.Frame_Error: // the end of its request
			l.say(&pb.Frame{Id: l.last, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{
				Action: pb.Action_ACTION_BLOCK, Reason: proto.String("told: " + f.GetError().Message)}}})
		}
	}
}

func (l *liar) say(f *pb.Frame, more ...byte) {
	frame, err := proto.Marshal(f)
	if err != nil {
		panic(err)
	}
	l.raw(append(frame, more...))
}

func (l *liar) raw(frame []byte) {
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	if _, err := l.out.Write(framed); err != nil {
		os.Exit(1)
	}
}

func (l *liar) greet(id uint64) {
	info := &pb.Info{ProtocolVersion: 1, Capabilities: &pb.Capabilities{}}
	switch l.mode {
	case "version":
		info.ProtocolVersion = 2
	case "tools":
		info.Capabilities.Tools = []*pb.ToolSpec{{Name: "t", Description: "d", InputSchema: []byte("{}")}}
	case "no answer to hello":
		l.say(&pb.Frame{Id: id, Body: &pb.Frame_ToolAnswer{ToolAnswer: &pb.ToolAnswer{Result: []byte("{}")}}})
		return
	}
	l.say(&pb.Frame{Id: id, Body: &pb.Frame_HelloAnswer{HelloAnswer: info}})
}

func (l *liar) judge(id uint64) {
	goes := &pb.Frame{Id: id, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{Action: pb.Action_ACTION_CONTINUE}}}
	switch l.mode {
	case "another kind of answer":
		l.say(&pb.Frame{Id: id, Body: &pb.Frame_AfterAnswer{AfterAnswer: &pb.AfterAnswer{Action: pb.Action_ACTION_CONTINUE}}})
	case "an unknown field":
		l.say(goes, 0xd8, 0x3e, 1)
	case "two answers in one":
		l.say(goes, 0xfa, 1, 2, 8, 1)
	case "no action":
		l.say(&pb.Frame{Id: id, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{}}})
	case "half a JSON text":
		l.say(&pb.Frame{Id: id, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{Action: pb.Action_ACTION_MODIFY, Arguments: []byte(`{"a":`)}}})
	case "no object":
		l.say(&pb.Frame{Id: id, Body: &pb.Frame_BeforeAnswer{BeforeAnswer: &pb.BeforeAnswer{Action: pb.Action_ACTION_MODIFY, Arguments: []byte(`[]`)}}})
	case "garbage":
		l.raw([]byte("no frame"))
	case "too long":
		l.raw(make([]byte, wire.MaxMessage+1))
	case "far too long":
		_, _ = l.out.Write([]byte{0xff, 0xff, 0xff, 0xff})
	case "JSON":
		_, _ = io.WriteString(l.out, "Content-Length: 2\r\n\r\n{}")
	case "crash":
		os.Exit(7)
	case "beyond its permissions":
		l.say(&pb.Frame{Id: 1<<8 | 60, Body: &pb.Frame_MemoryAppend{MemoryAppend: &pb.MemoryAppendRequest{Namespace: "liar", Content: "x"}}})
	default:
		l.say(goes)
	}
}

type forgotten struct{}

func (forgotten) Record(context.Context, *record.Record, []byte, []string) error { return nil }

// lies returns a registry that runs a liar.
func lies(t *testing.T, mode string) *extension.Registry {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	from, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"run.sh": "exec \"$@\"\n",
		"extension.yaml": fmt.Sprintf("schema: 1\nname: liar\nversion: '1'\ndescription: d\nprotocol: 1\nwire: protobuf\ncommand: sh\nargs: [run.sh, %q, %q, %q]\n"+
			"permissions: [hooks.before]\nhooks: {before: {}}\nrestart: {attempts: 1, first: 10ms}\n", program, asLiar, mode),
	} {
		if err := os.WriteFile(filepath.Join(from, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db, err := store.Open(filepath.Join(dir, "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := extension.Open(extension.Options{
		Dir: filepath.Join(dir, "extensions"), Store: db, Recorder: forgotten{}, Build: "test", Getenv: os.Getenv,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := r.Install(t.Context(), from, nil, extension.Actor{}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		v, err := r.Get("liar")
		if err != nil {
			t.Fatal(err)
		}
		if s := v.Status.State; s == supervise.Running || s == supervise.Degraded || s == supervise.Failed {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("it neither runs nor fails: %+v", v.Status)
		}
	}
}

// TestLiars expects every call to be denied that an extension did not forward unambiguously.
func TestLiars(t *testing.T) {
	const ended = "it ended before it answered"
	for mode, says := range map[string]string{
		"well behaved": "", "version": "it has failed", "tools": "it has failed", "no answer to hello": "it has failed",
		"another kind of answer": ended, "an unknown field": ended, "two answers in one": ended, "no action": ended, "half a JSON text": ended,
		"no object": "its answer is invalid", "garbage": ended, "too long": ended, "far too long": ended, "JSON": ended, "crash": ended,
		"beyond its permissions": "told: permission denied: memory.write required",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			r := lies(t, mode)
			c := &gate.Call{
				Message: gate.Message{ID: "c", Method: "tools/call", Subject: "read", Line: []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{}}}`)},
				Case:    gate.Case{Server: "fs"},
			}
			if err := wire.Read(c.Line, wire.FromAgent, &c.Envelope); err != nil {
				t.Fatal(err)
			}
			got := r.Before(t.Context(), c)
			if says == "" {
				if got.Move != gate.Forward || got.Failed != nil {
					t.Errorf("%+v", got)
				}
			} else if got.Move != gate.Deny || !strings.Contains(got.Reason, says) {
				t.Errorf("%+v, want %q", got, says)
			}
		})
	}
}
