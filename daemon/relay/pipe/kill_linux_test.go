package pipe_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/thoughtgate/thoughtgated/daemon/relay/mapping"
	"github.com/thoughtgate/thoughtgated/daemon/relay/pipe"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

const childVariable = "THOUGHTGATE_TEST_RELAY"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := relay(); err != nil {
			fmt.Fprintln(os.Stderr, "relay:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// relay copies lines from descriptor 3 to 4, with its memory in 5 and its staging pipe in 6,
// until the input ends. Each line is one journal entry, which holds the offset of its end.
func relay() error {
	m, err := mapping.Open(os.NewFile(5, "mapping"))
	if err != nil {
		return err
	}
	j, err := m.Journal()
	if err != nil {
		return err
	}
	var taken uint64 // everything up to here is pending output
	err = j.Entries(func(entry []byte) error {
		if len(entry) != 8 {
			return mapping.ErrCorrupt
		}
		taken = binary.LittleEndian.Uint64(entry)
		return nil
	})
	if err != nil {
		return err
	}
	in, err := m.Input(mapping.Agent, taken)
	if err != nil {
		return err
	}
	staging, err := pipe.TakeStaging(os.NewFile(6, "staging"))
	if err != nil {
		return err
	}
	cursor, err := m.Cursor(mapping.Server)
	if err != nil {
		return err
	}
	wake, err := pipe.NewWaker()
	if err != nil {
		return err
	}
	w := pipe.NewWriter(4, staging, cursor, wake)
	owed := func(from, to uint64) ([]byte, error) {
		b, ok := in.Bytes(from, to-from)
		if !ok {
			return nil, fmt.Errorf("bytes %d to %d are gone", from, to)
		}
		return b, nil
	}
	if _, err := w.Recover(owed); err != nil {
		return err
	}
	deliver := func() error {
		if cursor.Delivered() == taken {
			return nil
		}
		b, err := owed(cursor.Delivered(), taken)
		if err != nil {
			return err
		}
		return w.Write(b)
	}
	for {
		if err := deliver(); err != nil {
			return err
		}
		unread := in.Unread(taken)
		n := bytes.IndexByte(unread, '\n') + 1
		if n == 0 {
			if err := wake.Wait(3, unix.POLLIN); err != nil {
				return err
			}
			n, err := pipe.Read(3, in.Room(taken))
			if n == 0 || err != nil {
				return err
			}
			in.Read(n)
			continue
		}
		entry := binary.LittleEndian.AppendUint64(nil, taken+uint64(n))
		if !j.Add(entry) {
			return io.ErrShortBuffer
		}
		j.Commit()
		taken += uint64(n)
		if j.Full() && !j.Rewrite(func() bool { return j.Add(entry) }) {
			return io.ErrShortBuffer
		}
	}
}

// However often the relay is killed, each line arrives once, whole and in order.
func TestNothingIsLostOrDoubledWhenKilled(t *testing.T) {
	kills := 60
	if n := os.Getenv("THOUGHTGATE_KILLS"); n != "" {
		var err error
		if kills, err = strconv.Atoi(n); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []string{"pipes", "sockets"} {
		t.Run(kind, func(t *testing.T) { killRelay(t, kind == "sockets", kills) })
	}
}

func killRelay(t *testing.T, sockets bool, kills int) {
	from, in := rig.Ends(t, sockets)
	out, to := rig.Ends(t, sockets)
	m, err := mapping.Create(10 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	staging, err := pipe.NewStaging()
	if err != nil {
		t.Skip(err)
	}
	defer staging.Close()

	stop := make(chan struct{})
	sent := make(chan int, 1)
	go func() { // ends with stop
		defer in.Close()
		sent <- sendLines(in, stop)
	}()
	received := make(chan error, 1)
	var lines int
	go func() { // ends with the relay's last descriptor
		var err error
		lines, err = receiveLines(out)
		received <- err
	}()

	start := func() *exec.Cmd {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVariable+"=1")
		cmd.Stderr = os.Stderr
		cmd.ExtraFiles = []*os.File{from, to, m.File(), staging.File()}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for range kills {
		cmd := start()
		time.Sleep(time.Duration(rand.IntN(40_000)) * time.Microsecond) // the moment of the kill, not a wait
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
			t.Fatalf("a relay ended by itself: %v", err)
		}
	}
	close(stop)
	cmd := start()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the last relay: %v", err)
	}
	from.Close()
	to.Close()
	if err := <-received; err != nil {
		t.Error(err)
	}
	if n := <-sent; n != lines || n == 0 {
		t.Errorf("%d lines were sent and %d arrived", n, lines)
	}
	t.Logf("%d lines over %d kills", lines, kills)
}

// sendLines writes lines that contain their number and length, and returns how many it wrote
// before stop was closed.
func sendLines(w io.Writer, stop <-chan struct{}) int {
	sizes := rand.New(rand.NewPCG(1, 2))
	for i := 0; ; i++ {
		select {
		case <-stop:
			return i
		default:
		}
		size := 20 + sizes.IntN(200)
		switch sizes.IntN(200) {
		case 0:
			size = 1<<20 + sizes.IntN(8<<20)
		case 1, 2, 3:
			size = 60<<10 + sizes.IntN(20<<10)
		}
		line := append(fmt.Appendf(nil, "%d %d ", i, size), bytes.Repeat([]byte{byte('a' + i%26)}, size)...)
		if _, err := w.Write(append(line, '\n')); err != nil {
			return i
		}
	}
}

// receiveLines reads what sendLines has written, and returns the number of lines.
func receiveLines(r io.Reader) (n int, err error) {
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return n, nil
		}
		if err != nil {
			return n, fmt.Errorf("after line %d came %d bytes and %w", n, len(line), err)
		}
		var number, size int
		var body string
		if _, err := fmt.Sscan(string(line), &number, &size, &body); err != nil || number != n || len(body) != size ||
			strings.Trim(body, string(rune('a'+n%26))) != "" {
			return n, fmt.Errorf("line %d is %.60q with %d bytes (%v)", n, line, len(body), err)
		}
		n++
	}
}
