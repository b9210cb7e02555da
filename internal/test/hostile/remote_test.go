package hostile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/test/behind"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// TestRemote plays the cases with a server behind an address, which answers in JSON, in streams of
// events, or on the one stream of 2024-11-05. What becomes of the bytes is the same as over pipes.
func TestRemote(t *testing.T) {
	fixture := rig.NewFixture(t)
	fixture.Configure(policy)
	fixture.Shipped = true
	fixture.StartDaemon()
	cases := readCases(t, *casesFile)
	fronts := newFronts(t, 256)
	env := behind.Session(t, fixture, fronts.addresses)
	t.Run("all", func(t *testing.T) { // so that the fixture outlives them
		for n, form := range forms {
			for i, c := range cases {
				if (i+n)%*behindEach > 0 { // make test-all plays all of them
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%s", form, strings.ReplaceAll(c.Class, "/", "_"), c.ID), func(t *testing.T) {
					if why := differs(c, form); why != "" {
						t.Skip(why)
					}
					t.Parallel()
					name, front, start := fronts.next(t, form)
					for _, problem := range run(t, fixture, c, front, rig.Options{Server: name, Env: env, Remote: true, Behind: start}) {
						t.Error(problem)
					}
				})
			}
		}
	})
}

var forms = []behind.Form{behind.JSON, behind.Events, behind.Old}

// differs says why a case means something else behind an address; it is empty if it does not.
func differs(c *Case, form behind.Form) string {
	sent, _ := c.bytes()
	isOld, isModern := form == behind.Old, c.Era == "modern"
	isFromServer := c.Direction == fromServer
	switch {
	case isModern && isOld:
		return "2024-11-05 is not modern"
	case isModern && !isFromServer && bytes.Contains(sent, []byte(`"notifications/cancelled"`)):
		return "a request is cancelled by closing its response"
	case isModern && isFromServer && (form == behind.JSON || c.Setup == nil) && !bytes.Contains(sent, []byte(`"result"`)) && !bytes.Contains(sent, []byte(`"error"`)):
		return "no request is open on whose stream the server could say it"
	case isFromServer && hasOddLine(sent):
		return "the lines are events or bodies, which end where the server says, whatever is in them"
	case isFromServer && form != behind.JSON && hasLoneCR(sent):
		return "an event's line ends in CR"
	case isFromServer && form == behind.JSON && hasLoneCR(sent) && json.Valid(sent):
		return "a line break between tokens of a body is white space"
	case isFromServer && form == behind.JSON && bytes.Index(sent, []byte(`"id"`)) > behind.Seen:
		return "the body is another request's, or nobody's: what tells whose comes too late"
	case isFromServer && isOld && len(sent) > wire.MaxMessage:
		return "the session is renewed: nobody can know what the message was the answer to"
	}
	return ""
}

// hasOddLine reports whether a line ends within a string and others follow.
func hasOddLine(sent []byte) bool {
	lines := linesOf(sent)
	for _, line := range lines[:max(len(lines)-1, 0)] {
		if n := bytes.Count(line, []byte(`"`)) - bytes.Count(line, []byte(`\"`)); n%2 > 0 {
			return true
		}
	}
	return false
}

func hasLoneCR(sent []byte) bool {
	return bytes.Count(sent, []byte("\r")) > bytes.Count(sent, []byte("\r\n"))
}

// fronts are servers behind the addresses of one session. A case has one for itself.
type fronts struct {
	addresses map[string]string // by the name of the server

	mu   sync.Mutex
	last int
	of   []*behind.Front
}

func newFronts(t *testing.T, n int) *fronts {
	fs := &fronts{addresses: map[string]string{}, of: make([]*behind.Front, n)}
	s := httptest.NewServer(fs)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections) // streams end with their clients
	for i := range n {
		fs.addresses[fmt.Sprintf("x%d", i)] = fmt.Sprintf("%s/%d", s.URL, i)
	}
	return fs
}

func (fs *fronts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil || i < 0 || i >= len(fs.of) {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	fs.mu.Lock()
	front := fs.of[i]
	fs.mu.Unlock()
	if front == nil {
		panic(http.ErrAbortHandler)
	}
	front.ServeHTTP(w, r)
}

// next returns the name of the next server, what is in front of it, and what starts it.
func (fs *fronts) next(t *testing.T, form behind.Form) (name string, front *behind.Front, start func(command []string)) {
	front = &behind.Front{Form: form}
	fs.mu.Lock()
	i := fs.last % len(fs.of)
	fs.last++
	fs.of[i] = front
	fs.mu.Unlock()
	return fmt.Sprintf("x%d", i), front, func(command []string) {
		stop, err := front.Start(command)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
}
