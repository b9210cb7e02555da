package backend

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A transcript is what clients and the server write and read, one line each:
//
//	A> LINE      client A writes
//	A< LINE      the next line that A reads
//	s> LINE      the server writes; s2 is the second process
//	s< LINE      the next line that it reads
//	join A       A joins; so does a client when it is first named
//	hello A ...  A makes the handshake, with those capabilities
//	leave A      A leaves
//	gone A TEXT  A was removed, and the reason contains TEXT
//	full A N     A accepts N more lines
//	wait D       time passes
//	crash        the server ends, and is restarted
//	processes N  there are N processes
//
// A message can be abbreviated as id METHOD ...; see expand. At the end everything must have been
// read.
type transcript struct {
	*fixture
	members map[string]*Member
	shelves map[string]*shelf
	order   []string
}

func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i, part := range strings.Split("\n"+string(text), "\n== ") {
			name, steps, _ := strings.Cut(part, "\n")
			if i == 0 {
				continue // a comment about the file
			}
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txt")+"/"+name, func(t *testing.T) {
				keep(t, Options{}, func(h *fixture) {
					tr := &transcript{h, map[string]*Member{}, map[string]*shelf{}, nil}
					for n, step := range strings.Split(steps, "\n") {
						if step = strings.TrimSpace(step); step != "" && step[0] != '#' {
							tr.step(fmt.Sprintf("%s, step %d: %s", name, n+1, step), step)
						}
					}
					tr.finish()
				})
			})
		}
	}
}

func (tr *transcript) step(where, step string) {
	word, rest, _ := strings.Cut(step, " ")
	who, ok := strings.CutSuffix(word, ">")
	if ok {
		tr.writes(where, who, expand(rest))
		synctest.Wait()
		return
	}
	if who, ok = strings.CutSuffix(word, "<"); ok {
		tr.reads(where, who, expand(rest))
		return
	}
	name, rest, _ := strings.Cut(rest, " ")
	switch word {
	case "join":
		tr.client(name)
	case "hello":
		tr.hello(where, name, strings.Fields(rest))
	case "leave":
		tr.members[name].Leave()
	case "gone":
		synctest.Wait()
		if err := tr.shelves[name].ended(); err == nil || !strings.Contains(err.Error(), rest) {
			tr.t.Errorf("%s: %v", where, err)
		}
	case "full":
		tr.client(name)
		fmt.Sscan(rest, &tr.shelves[name].room)
	case "wait":
		d, err := time.ParseDuration(name)
		if err != nil {
			tr.t.Fatal(where, err)
		}
		time.Sleep(d)
	case "crash":
		tr.server(1).exit()
		time.Sleep(2 * pause)
	case "processes":
		if got := fmt.Sprint(len(tr.List())); got != name {
			tr.t.Errorf("%s: %s", where, got)
		}
	default:
		tr.t.Fatalf("%s: what is that?", where)
	}
	synctest.Wait()
}

func (tr *transcript) client(name string) *Member {
	if tr.members[name] == nil {
		tr.shelves[name] = &shelf{room: -1}
		tr.members[name] = tr.join(tr.shelves[name])
		tr.order = append(tr.order, name)
		synctest.Wait()
	}
	return tr.members[name]
}

func (tr *transcript) process(name string) *server {
	n := 1
	fmt.Sscan(strings.TrimPrefix(name, "s"), &n)
	return tr.server(n)
}

func (tr *transcript) writes(where, who, line string) {
	if who[0] == 's' {
		tr.process(who).say(line)
	} else if err := tr.client(who).Write(tr.t.Context(), []byte(line)); err != nil {
		tr.t.Errorf("%s: %v", where, err)
	}
}

func (tr *transcript) reads(where, who, want string) {
	tr.t.Helper()
	synctest.Wait()
	got := tr.next(who)
	if got == nil {
		tr.t.Fatalf("%s: there is nothing to read", where)
	}
	if text := *got; text != want && !(strings.HasSuffix(want, "...") && strings.HasPrefix(text, strings.TrimSuffix(want, "..."))) {
		tr.t.Errorf("%s\n got %s\nwant %s", where, text, want)
	}
}

func (tr *transcript) next(who string) *string {
	lines := &[]string{}
	if who[0] == 's' {
		s := tr.process(who)
		s.mu.Lock()
		defer s.mu.Unlock()
		lines = &s.lines
	} else {
		c := tr.shelves[who]
		c.mu.Lock()
		defer c.mu.Unlock()
		lines = &c.lines
	}
	if len(*lines) == 0 {
		return nil
	}
	line := (*lines)[0]
	*lines = (*lines)[1:]
	return &line
}

// hello makes the handshake of a client. Only the first one reaches the server.
func (tr *transcript) hello(where, who string, capabilities []string) {
	var declared []string
	for _, c := range capabilities {
		declared = append(declared, fmt.Sprintf("%q:{}", c))
	}
	m := tr.client(who)
	const ask = `{"jsonrpc":"2.0","id":%v,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{%s},"clientInfo":{"name":"%s","version":"1"}}}`
	tr.writes(where, who, fmt.Sprintf(ask, `"hi"`, strings.Join(declared, ","), who))
	synctest.Wait()
	process := "s" + m.in.Load().id
	if line := tr.next(process); line != nil {
		var id int
		fmt.Sscanf(*line, `{"jsonrpc":"2.0","id":%d`, &id)
		tr.writes(where, process, fmt.Sprintf(answer, fmt.Sprint(id)))
	}
	tr.reads(where, who, fmt.Sprintf(answer, `"hi"`))
	tr.writes(where, who, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	synctest.Wait()
	if line := tr.next(process); line != nil && !strings.Contains(*line, "notifications/initialized") {
		tr.t.Errorf("%s: the server read %s", where, *line)
	}
}

const answer = `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"fake","version":"1"}}}`

func (tr *transcript) finish() {
	synctest.Wait()
	for i := range tr.procs {
		for line := tr.next(fmt.Sprint("s", i+1)); line != nil; line = tr.next(fmt.Sprint("s", i+1)) {
			tr.t.Errorf("process %d has read besides: %s", i+1, *line)
		}
	}
	for _, name := range tr.order {
		for line := tr.next(name); line != nil; line = tr.next(name) {
			tr.t.Errorf("%s has read besides: %s", name, *line)
		}
	}
}

// expand returns the message that an abbreviation stands for:
//
//	7 tools/call {...}      a request with an id; an id may be a string
//	notifications/x {...}   a notification
//	7 = {...}               a result
//	7 ! -32602 text         an error; text may end in ...
func expand(short string) string {
	if strings.HasPrefix(short, "{") {
		return short
	}
	first, rest, _ := strings.Cut(short, " ")
	params := func(text string) string {
		if text == "" {
			return ""
		}
		return `,"params":` + text
	}
	if first[0] != '"' && (first[0] < '0' || first[0] > '9') && first[0] != '-' {
		return fmt.Sprintf(`{"jsonrpc":"2.0","method":%q%s}`, first, params(rest))
	}
	second, rest, _ := strings.Cut(rest, " ")
	switch second {
	case "=":
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, first, rest)
	case "!":
		code, text, _ := strings.Cut(rest, " ")
		if cut, ok := strings.CutSuffix(text, "..."); ok {
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":"%s...`, first, code, cut)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":%s,"message":%q}}`, first, code, text)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q%s}`, first, second, params(rest))
}
