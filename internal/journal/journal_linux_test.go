package journal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// journald is a socket that reads entries as journald does.
type journald struct {
	*net.UnixConn
	path string
}

func startJournald(t *testing.T) *journald {
	t.Helper()
	path := filepath.Join(t.TempDir(), "socket")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &journald{conn, path}
}

// entry returns the next entry, and whether it came in a file.
func (j *journald) entry(t *testing.T) (map[string]string, bool) {
	t.Helper()
	buf, oob := make([]byte, 1<<20), make([]byte, 64)
	if err := j.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	n, o, _, _, err := j.ReadMsgUnix(buf, oob)
	if err != nil {
		t.Fatal(err)
	}
	if o == 0 {
		return parse(t, buf[:n]), false
	}
	messages, err := unix.ParseSocketControlMessage(oob[:o])
	if err != nil || n != 0 {
		t.Fatal(n, err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(fds[0]), "entry")
	defer f.Close()
	const want = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE | unix.F_SEAL_SEAL
	if seals, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0); err != nil || seals != want {
		t.Errorf("seals are %x, want %x (%v)", seals, want, err)
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, content), true
}

func parse(t *testing.T, e []byte) map[string]string {
	t.Helper()
	fields := map[string]string{}
	for len(e) > 0 {
		i := bytes.IndexAny(e, "=\n")
		name := string(e[:i])
		if _, twice := fields[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		if e[i] == '=' {
			end := bytes.IndexByte(e, '\n')
			fields[name] = string(e[i+1 : end])
			e = e[end+1:]
			continue
		}
		size := int(binary.LittleEndian.Uint64(e[i+1:]))
		e = e[i+9:]
		fields[name] = string(e[:size])
		if e[size] != '\n' {
			t.Fatalf("%s does not end with a line end", name)
		}
		e = e[size+1:]
	}
	return fields
}

func TestEntries(t *testing.T) {
	j := startJournald(t)
	var lines bytes.Buffer
	h, err := New(j.path, "thoughtgated", slog.LevelDebug, slog.NewTextHandler(&lines, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	log := slog.New(h).With("component", "daemon")
	log.Warn("forwarded in the development profile", "server_id", "git hub", "tool", "delete_repo", "latency_us", 450, "forwarded", true, "odd-key.ü", "a\nTG_SERVER_ID=forged\n")
	got, file := j.entry(t)
	for name, want := range map[string]string{
		"MESSAGE":           `forwarded in the development profile server_id="git hub" tool=delete_repo latency_us=450 forwarded=true odd-key.ü="a\nTG_SERVER_ID=forged\n"`,
		"PRIORITY":          "4",
		"SYSLOG_IDENTIFIER": "thoughtgated",
		"TG_COMPONENT":      "daemon",
		"TG_SERVER_ID":      "git hub",
		"TG_TOOL":           "delete_repo",
		"TG_LATENCY_US":     "450",
		"TG_FORWARDED":      "true",
		"TG_ODD_KEY___":     "a\nTG_SERVER_ID=forged\n",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	if len(got) != 9 || file {
		t.Errorf("got %v, in a file: %v", got, file)
	}
	for level, want := range map[slog.Level]string{slog.LevelDebug: "7", slog.LevelInfo: "6", slog.LevelWarn: "4", slog.LevelError: "3"} {
		log.Log(t.Context(), level, "m")
		if got, _ := j.entry(t); got["PRIORITY"] != want {
			t.Errorf("%v has the priority %s, want %s", level, got["PRIORITY"], want)
		}
	}
	long := strings.Repeat("0123456789abcdef", 1<<16)
	log.Error("m", "stack", long)
	if got, file := j.entry(t); got["TG_STACK"] != long || !file {
		t.Errorf("of a long value came %d bytes, in a file: %v", len(got["TG_STACK"]), file)
	}
	if lines.Len() > 0 {
		t.Errorf("beside the journal: %s", &lines)
	}
}

// If the journal is missing, nothing is lost, and if it hangs, callers block only briefly:
// lines are written instead.
func TestWithoutJournal(t *testing.T) {
	var lines bytes.Buffer
	h, err := New(filepath.Join(t.TempDir(), "none"), "x", slog.LevelInfo, slog.NewTextHandler(&lines, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	slog.New(h).With("server_id", "files").Info("away")
	if !strings.Contains(lines.String(), "msg=away server_id=files") {
		t.Errorf("got %s", &lines)
	}

	hung := startJournald(t)
	lines.Reset()
	h, err = New(hung.path, "x", slog.LevelInfo, slog.NewTextHandler(&lines, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	began, n := time.Now(), 0
	for ; lines.Len() == 0; n++ { // until the socket's buffer is full
		slog.New(h).Info(fmt.Sprint("hung ", n))
	}
	for range 1000 {
		slog.New(h).Info("more")
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("%d entries for a journal that hangs took %v", n+1000, took)
	}
}

func TestLeads(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	var stat unix.Stat_t
	if err := unix.Fstat(int(w.Fd()), &stat); err != nil {
		t.Fatal(err)
	}
	for stream, want := range map[string]bool{
		fmt.Sprintf("%d:%d", stat.Dev, stat.Ino): true, fmt.Sprintf("%d:%d", stat.Dev, stat.Ino+1): false, "": false, "x": false,
	} {
		if got := Leads(w, stream); got != want {
			t.Errorf("%q leads there: %v, want %v", stream, got, want)
		}
	}
	closed, err := os.Open(os.DevNull)
	if err := errors.Join(err, closed.Close()); err != nil {
		t.Fatal(err)
	}
	if Leads(closed, "1:1") {
		t.Error("a closed file leads to the journal")
	}
}
