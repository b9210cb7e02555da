package kills

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

// stopped are the files of which the tests build another version, with a stop behind
// each store into a session's memory, behind what is done between two stores, and behind
// each change of what the next daemon is handed and told. The programs that ship have
// none of it.
var stopped = []struct {
	files string         // a pattern
	call  *regexp.Regexp // to be replaced
	with  string         // before the number of the site
}{
	{"daemon/relay/mapping/*.go", regexp.MustCompile(`atomic\.StoreUint64\(`), "stop.Store("},
	{"daemon/relay/pipe/staging_linux.go", regexp.MustCompile(`unix\.(Read|Writev?|Splice)\(`), "stop.$1("},
	{"daemon/relay/pipe/wake.go", regexp.MustCompile(`unix\.(Read)\(`), "stop.$1("},
	{"daemon/audit/log.go", regexp.MustCompile(`l\.file\.Write\(`), "stop.Append(%d, l.file, "},
	{"daemon/keep/notify.go", regexp.MustCompile(`unix\.(Sendmsg)\(`), "stop.$1("},
	{"daemon/handover/*.go", regexp.MustCompile(`(\w+(?:\.\w+)*\.Store\.(?:PutHeld|DeleteHeld))\(`), "stop.Held(%d, $1, "},
}

// stops is a daemon that stops where it is told to.
type stops struct {
	program string
	sites   []string // by their numbers, of which the first is 1

	mu     sync.Mutex
	passed map[int]int // how often one has stopped there
}

// newStops builds it.
func newStops(t *testing.T) *stops {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	s := &stops{passed: map[int]int{}}
	dir, replace := t.TempDir(), map[string]string{}
	for _, place := range stopped {
		before := len(s.sites)
		files, err := filepath.Glob(filepath.Join(root, place.files))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") || !place.call.Match(text) {
				continue
			}
			replace[file] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
			if err := os.WriteFile(replace[file], []byte(s.instrument(string(text), filepath.Base(file), place.call, place.with)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if len(s.sites) == before {
			t.Errorf("nothing is stored in %s", place.files)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.program = rig.Build(t, "thoughtgated", "-overlay", filepath.Join(dir, "overlay.json"))
	return s
}

// instrument returns the text of a file with a stop behind each call.
func (s *stops) instrument(text, name string, call *regexp.Regexp, with string) string {
	var out strings.Builder
	at := 0
	for _, m := range call.FindAllStringSubmatchIndex(text, -1) {
		out.WriteString(text[at:m[0]])
		at = m[1]
		s.sites = append(s.sites, fmt.Sprintf("%s:%d", name, 1+strings.Count(text[:m[0]], "\n")))
		begin := string(call.ExpandString(nil, with, text, m))
		if !strings.Contains(begin, "%d") {
			begin += "%d, "
		}
		fmt.Fprintf(&out, begin, len(s.sites))
	}
	out.WriteString(text[at:])
	text = out.String()
	const one, many = "import \"sync/atomic\"\n", "import (\n"
	text = strings.Replace(text, one, many+"\t\"sync/atomic\"\n)\n", 1)
	text = strings.Replace(text, many, many+"\tstop \"github.com/thoughtgate/thoughtgated/internal/test/kills/testdata/stop\"\n", 1)
	for _, used := range []string{"atomic.LoadUint64", "unix.EINTR"} { // what is imported has to be used
		if pkg, _, _ := strings.Cut(used, "."); strings.Contains(text, "/"+pkg+"\"\n") {
			text += fmt.Sprintf("\nvar _ = %s\n", used)
		}
	}
	return text
}

// stopVariable names the file that arm writes; see testdata/stop.
const stopVariable = "THOUGHTGATE_TEST_STOP"

// arm has the daemon stop when it passes a site the nth time from now on.
func (h *fixture) arm(site, nth int) error {
	path := h.Path("stop")
	if err := os.WriteFile(path+"~", fmt.Appendf(nil, "%d %d", site, nth), 0o600); err != nil {
		return err
	}
	return os.Rename(path+"~", path)
}

// site returns the site of a turn. All have theirs before one has another, in random order.
func (s *stops) site(turn int) int {
	n := len(s.sites)
	return 1 + rand.New(rand.NewPCG(*seed, uint64(turn/n))).Perm(n)[turn%n]
}

// fired notes that a daemon has stopped at a site.
func (s *stops) fired(site int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.passed[site]++
}

// report says where the daemons have stopped, of which there were so many. Some places
// are passed seldom, but not most.
func (s *stops) report(t *testing.T, daemons int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for i, site := range s.sites {
		all = append(all, fmt.Sprintf("%s %d times", site, s.passed[i+1]))
	}
	t.Logf("daemons stopped at %d of %d places: %s", len(s.passed), len(s.sites), strings.Join(all, ", "))
	if daemons >= 10*len(s.sites) && len(s.passed) <= len(s.sites)/2 {
		t.Errorf("in %d tries daemons stopped at no more than %d places of %d", daemons, len(s.passed), len(s.sites))
	}
}
