package trust

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

func someStarts() []*pb.ServerStart {
	digest := func(c byte) []byte { return bytes.Repeat([]byte{c}, 32) }
	return []*pb.ServerStart{
		{
			Digest: digest(0x9a), Server: "notes", Project: "/home/ana/shop", From: "/home/ana/shop/.mcp.json",
			Command: []string{"node", "./tools/server.js", "--token", "a b"}, Sets: []string{"NODE_OPTIONS", "TOKEN"},
			Loaders: []*pb.StartLoader{{Name: "NODE_OPTIONS", Value: strings.Repeat("c", 64)}},
			Files: []*pb.StartFile{
				{Role: "program", Path: "/usr/bin/node", Digest: strings.Repeat("a", 64)},
				{Role: "script", Path: "/home/ana/shop/tools/server.js"},
			},
			Alarms:  []string{"the project sets NODE_OPTIONS, which makes programs load other code"},
			Gaps:    []string{"what /home/ana/shop/tools/server.js loads was not checked", "/home/ana/shop/tools/server.js could not be read: permission denied"},
			Noticed: consoletest.At(-time.Hour),
		},
		{
			Digest: digest(0x1b), Server: "evil\x1b[2J", Project: "/home/ana/evil\u202e", Command: []string{"./npx\r", "-y"},
			Sets: []string{"A\x1b]0;x"}, Files: []*pb.StartFile{{Role: "program", Path: "/home/ana/evil\u202e/npx\r", Digest: strings.Repeat("b", 64)}},
			Alarms: []string{"the program /home/ana/evil\u202e/npx\r is a file of the project"}, Noticed: consoletest.At(-time.Minute),
		},
		{
			Digest: digest(0x77), Server: "notes", Project: "/home/ana/shop", Command: []string{"npx", "notes@1.2.3"},
			Noticed: consoletest.At(-48 * time.Hour), Accepted: consoletest.At(-47 * time.Hour), Decider: "ana (uid 1000)",
		},
	}
}

func TestStarts(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
	}{
		{"servers-project", []string{"servers"}},
		{"servers-project-json", []string{"servers", "--json"}},
		{"servers-accept-start", []string{"servers", "accept", "notes", "--start", "9a9a9a9a"}},
		{"servers-accept-hostile", []string{"servers", "accept", "evil\x1b[2J"}},
		{"servers-accept-start-json", []string{"servers", "accept", "notes", "--json"}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			f.Starts = someStarts()
			c := newConsole(f.Socket)
			if code := c.Run(t, test.args...); code != 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			if !strings.HasSuffix(test.golden, "json") {
				consoletest.MustFit(t, c.Out.String(), 80)
			}
			consoletest.Golden(t, test.golden, c.Out.String()+"--- stderr\n"+c.Err.String())
		})
	}
}

// Only what was shown is accepted, and only if it is unambiguous.
func TestAcceptStart(t *testing.T) {
	f := consoletest.Start(t)
	f.Starts = someStarts()
	c := newConsole(f.Socket)
	if code := c.Run(t, "servers", "accept", "notes", "--start", "9a9a9a9a"); code != 0 || len(f.Agreed) != 1 {
		t.Fatalf("exit %d: %s", code, c.Err.String())
	}
	if got := f.Agreed[0]; got.GetProject() != "/home/ana/shop" || got.GetServer() != "notes" || !bytes.Equal(got.GetDigest(), f.Starts[0].GetDigest()) || got.GetSurface() != "terminal" {
		t.Errorf("agreed to %v", got)
	}
	other := someStarts()[0]
	other.Digest, other.Project = bytes.Repeat([]byte{0x9b}, 32), "/home/ana/other"
	f.Starts = append(f.Starts, other)
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"notes"}, 1, "notes is ambiguous: it matches 2 waiting starts"},
		{[]string{"notes", "--start", "77777777"}, 1, "notes: no start with a digest that begins with 77777777 is waiting"},
		{[]string{"notes", "--start", "9a9a"}, 2, "at least 8 hexadecimal digits"},
		{[]string{"clock"}, 1, "clock: not found"},
		{[]string{"notes", "--start", "9a", "--launch", "9a"}, 2, "can't be combined"},
	} {
		if code := c.Run(t, append([]string{"servers", "accept"}, test.args...)...); code != test.code || !strings.Contains(c.Err.String(), test.want) {
			t.Errorf("%q: exit %d: %s", test.args, code, c.Err.String())
		}
	}
	f.AcceptErr = client.NewError(client.ReasonForbidden, "not allowed to an agent")
	if code := c.Run(t, "servers", "accept", "notes", "--start", "9b9b9b9b"); code != 1 || !strings.Contains(c.Err.String(), "not allowed to an agent") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

func TestForgetStart(t *testing.T) {
	f := consoletest.Start(t)
	f.Starts = someStarts()
	c := newConsole(f.Socket)
	if code := c.Run(t, "servers", "forget", "notes"); code != 0 || c.Out.String() != "forgotten: notes in /home/ana/shop: npx notes@1.2.3\n" ||
		len(f.Forgotten) != 1 || !bytes.Equal(f.Forgotten[0].GetDigest(), f.Starts[2].GetDigest()) {
		t.Errorf("exit %d: %s%s", code, c.Out.String(), c.Err.String())
	}
	for _, args := range [][]string{{"clock"}, {"notes", "--start", "9a9a"}} {
		if code := c.Run(t, append([]string{"servers", "forget"}, args...)...); code != 1 || !strings.Contains(c.Err.String(), "no start of that id is accepted") {
			t.Errorf("%q: exit %d: %s", args, code, c.Err.String())
		}
	}
	f.AcceptErr = client.NewError(client.ReasonForbidden, "not allowed to an agent")
	if code := c.Run(t, "servers", "forget", "notes"); code != 1 || !strings.Contains(c.Err.String(), "not allowed to an agent") {
		t.Errorf("exit %d: %s", code, c.Err.String())
	}
}

// Of a server behind an address a person is shown the host, and names.
func TestRemoteSheet(t *testing.T) {
	s := &pb.ServerStart{
		Digest: bytes.Repeat([]byte{1}, 32), Server: "notes", Project: "/home/ana/shop", From: "/home/ana/shop/.mcp.json",
		Remote: &pb.RemoteStart{Host: "mcp.test\x1b[2J", Headers: []string{"Authorization", "X-Team"}, Variables: []string{"TOKEN"}, Terms: strings.Repeat("a", 64)},
	}
	var got []string
	for _, line := range StartSheet(s).Lines(80) {
		got = append(got, string(line))
	}
	want := []string{
		"server    notes", "project   /home/ana/shop", "named by  /home/ana/shop/.mcp.json", `host      mcp.test\u{1b}[2J`,
		"sends     Authorization, X-Team", "uses      TOKEN",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := started(s); got != `host mcp.test\u{1b}[2J` {
		t.Errorf("%q", got)
	}
}
