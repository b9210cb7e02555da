package kills

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// serverRole is the first argument of the test binary when it is a server; the second
// is its own list of what it has executed.
const serverRole = "kills-server"

// head is how a request of the agent's begins, with its id, what is called, how many
// milliseconds the answer takes and how long it is. Behind it comes the text, and tail.
const (
	head = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"wait":%d,"size":%d,"text":"`
	tail = `"}}}`
	ping = `{"jsonrpc":"2.0","id":%d,"method":"ping"}`
)

// answerTo is what the server answers to a call with a text, without the line's end.
func answerTo(id int, sum uint32, size int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"%08x %s"}]}}`, id, sum, strings.Repeat("r", size))
}

func pong(id int) string { return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{}}`, id) }

// notice is what the server says by itself, numbered from 1.
const notice = `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%d}}`

// busy is the end of the name of a file beside the list: as long as it is there, the
// server reads nothing.
const busy = ".busy"

// noticeEvery is how many requests come between two of them.
const noticeEvery = 8

// server executes what it reads: it adds the id to its list, and answers.
type server struct {
	list *os.File

	mu    sync.Mutex // one line at a time
	out   io.Writer
	notes int
}

// serve returns when all that was read is answered.
func serve(in io.Reader, out io.Writer, list string) error {
	f, err := os.OpenFile(list, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for { // as a server that is busy
		if _, err := os.Lstat(list + busy); err != nil {
			break
		}
		time.Sleep(5 * time.Millisecond) // between two looks
	}
	s := &server{list: f, out: out}
	var under sync.WaitGroup
	defer under.Wait()
	lines := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			if len(line) > 0 {
				return s.note("cut: %.200q", line)
			}
			return nil
		}
		if err := s.execute(bytes.TrimSuffix(line, []byte("\n")), &under); err != nil {
			return err
		}
		if n%noticeEvery == 0 {
			s.notes++
			s.say(fmt.Sprintf(notice, s.notes))
		}
	}
}

func (s *server) execute(line []byte, under *sync.WaitGroup) error {
	var id, wait, size int
	var tool string
	if _, err := fmt.Sscanf(string(line[:min(len(line), 100)]), ping, &id); err == nil {
		if err := s.note("%d", id); err != nil {
			return err
		}
		s.say(pong(id))
		return nil
	}
	before, text, ok := bytes.Cut(line, []byte(`"text":"`))
	if ok {
		text, ok = bytes.CutSuffix(text, []byte(tail))
	}
	if _, err := fmt.Sscanf(string(before)+`"text":"`, head, &id, &tool, &wait, &size); err != nil || !ok {
		return s.note("no request of the agent's: %v: %.200q", err, line)
	}
	if err := s.note("%d", id); err != nil {
		return err
	}
	answer := answerTo(id, crc32.ChecksumIEEE(text), size)
	if wait == 0 {
		s.say(answer)
		return nil
	}
	under.Go(func() {
		time.Sleep(time.Duration(wait) * time.Millisecond) // it takes that long
		s.say(answer)
	})
	return nil
}

// note adds a line to the list.
func (s *server) note(format string, args ...any) error {
	_, err := fmt.Fprintf(s.list, format+"\n", args...)
	return err
}

// say answers. Who does not read that has gone, which shows elsewhere.
func (s *server) say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = io.WriteString(s.out, line+"\n")
}
