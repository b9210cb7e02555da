//gotest:plain it measures programs that are built without the race detector, and nothing of it ships
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/programs"
	"github.com/thoughtgate/thoughtgated/internal/test/rig"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "server":
			serve(os.Stdin, os.Stdout)
			return
		case "floor":
			os.Exit(copyBetween(os.Args[2:]))
		case "picky":
			os.Exit(refuseLarge())
		}
	}
	os.Exit(m.Run())
}

// self returns the path of this program.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// testSessions starts a server alone and one behind the copier.
func testSessions(t *testing.T) map[string]*session {
	t.Helper()
	sessions, self := map[string]*session{}, self(t)
	for name, command := range map[string][]string{"direct": {self, "server"}, "floor": {self, "floor", self, "server"}} {
		s, err := way{name: name, command: command, env: os.Environ()}.start()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			all := family(s.pid())
			if err := s.close(); err != nil {
				t.Error(err)
			}
			for _, pid := range all {
				if cpu(pid) != 0 {
					t.Errorf("%s: process %d is left", name, pid)
				}
			}
		})
		sessions[name] = s
	}
	return sessions
}

func TestPipeline(t *testing.T) {
	for name, s := range testSessions(t) {
		for _, flight := range []int{1, 32, 256} {
			for _, k := range []kind{governed, passing} {
				const n = 300
				began := time.Now()
				took, err := s.pipeline(k.method, k.tool, n, flight)
				if err != nil || len(took) != n {
					t.Fatalf("%s, %s, %d in flight: %d answers, %v", name, k.name, flight, len(took), err)
				}
				if least, most := slices.Min(took), slices.Max(took); least <= 0 || most > time.Since(began) {
					t.Errorf("%s, %s, %d in flight: a call took from %v to %v", name, k.name, flight, least, most)
				}
			}
		}
		// More than fits into all pipes and buffers between the two.
		if err := s.call("tools/call", "size-1000000", strings.Repeat("y", 1_000_000)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := s.pipeline("tools/call", "size-2000000", 2, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceive(t *testing.T) {
	for _, test := range []struct {
		line string
		id   int
		err  string
	}{
		{`{"jsonrpc":"2.0","id":12,"result":{}}` + "\n", 12, ""},
		{`{"jsonrpc":"2.0","id":12,"result":"` + strings.Repeat("x", 10_000) + "\"}\n", 12, ""},
		{`{"jsonrpc":"2.0","id":12,"error":{"code":1,"message":"no"}}` + "\n", 0, "a call failed"},
		{`{"jsonrpc":"2.0","method":"notifications/message"}` + "\n", 0, "a call failed"},
		{`{"jsonrpc":"2.0","id":12`, 0, "EOF"},
	} {
		s := &session{out: bufio.NewReaderSize(strings.NewReader(test.line), 1024)}
		id, err := s.receive()
		if err == nil && test.err != "" || err != nil && (test.err == "" || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%.60q: %v, want %q", test.line, err, test.err)
		}
		if err == nil && id != test.id {
			t.Errorf("%.60q: id %d, want %d", test.line, id, test.id)
		}
	}
}

func TestDecisions(t *testing.T) {
	got, err := decisions([]byte(`goos: linux
BenchmarkRule/policies=0/listed=false-2         	 1000000	       158.9 ns/op	       0 B/op	       0 allocs/op
BenchmarkRule/policies=10000/listed=true-2      	  439404	      4540 ns/op	    2192 B/op	      42 allocs/op
BenchmarkRule/policies=10000/listed=true        	  439404	      4640 ns/op
BenchmarkRuleOfAnother/policies=10/listed=true  	  439404	      4640 ns/op
PASS
`))
	want := map[string][]float64{"decision.0.false": {.1589}, "decision.10000.true": {4.54, 4.64}}
	if err != nil || len(got) != len(want) {
		t.Fatalf("got %v, %v", got, err)
	}
	for name, values := range want {
		if !slices.Equal(got[name], values) {
			t.Errorf("%s: %v, want %v", name, got[name], values)
		}
	}
}

func TestLives(t *testing.T) {
	spawns, handshakes, err := lives(`time=x level=INFO msg=other
time=x level=DEBUG msg="the program runs" component=daemon process="extension \"quota\"" pid=7 spawn=2.5ms handshake=812.5µs
time=x level=DEBUG msg="the program runs" component=daemon process="extension \"quota\"" pid=8 spawn=1.000002s handshake=3ms
`)
	if err != nil || !slices.Equal(spawns, []float64{2.5, 1000.002}) || !slices.Equal(handshakes, []float64{.8125, 3}) {
		t.Errorf("got %v, %v, %v", spawns, handshakes, err)
	}
	if _, _, err := lives("nothing"); err == nil {
		t.Error("a log without a start is no error")
	}
}

func TestQuiet(t *testing.T) {
	for _, test := range []struct {
		quiet
		warned bool
	}{
		{quiet{Others: .01}, false}, {quiet{Others: .3}, true}, {quiet{Stolen: .3}, true},
	} {
		if got := test.warning(); (got != "") != test.warned {
			t.Errorf("%+v: %q", test.quiet, got)
		}
	}
}

// built returns a folder with the programs, as shipped, and the measured extension.
func built(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	folder := filepath.Join(dir, "extensions", quota)
	if err := programs.PlaceIn(dir); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-o", folder+"/", "../../../extensions/"+quota)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", quota, err, out)
	}
	manifest, err := os.ReadFile(filepath.Join("../../../extensions", quota, "extension.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "extension.yaml"), manifest, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A short run with the real programs writes the page, the JSON and the profiles.
func TestRun(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the figures that come from /proc are missing here")
	}
	rig.ResetSIGHUP()
	dir, bin := t.TempDir(), built(t)
	o := options{
		bin: bin, base: bin, peers: []peer{{"copier", []string{self(t), "floor"}}}, turns: 1, only: regexp.MustCompile("^(latency|log|extension)$"), records: 5000, command: "a test",
		json: filepath.Join(dir, "bench.json"), markdown: filepath.Join(dir, "page.md"), profiles: filepath.Join(dir, "profiles"),
	}
	if err := run(o); err != nil {
		t.Fatal(err)
	}
	var r report
	if text, err := os.ReadFile(o.json); err != nil || json.Unmarshal(text, &r) != nil {
		t.Fatalf("%s: %v", text, err)
	}
	page, err := os.ReadFile(o.markdown)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"call.1.p50", "call.1.cpu", "pass.1.p99", "log.lookup", "log.start", "extension.spawn", "extension.handshake", "extension.message",
	} {
		if v, ok := r.row(name); !ok || v.Ours.value() <= 0 {
			t.Errorf("%s: got %+v", name, v)
		} else if !bytes.Contains(page, []byte("| "+v.What+" ")) {
			t.Errorf("%s is not on the page", name)
		}
	}
	if v, _ := r.row("call.1.p50"); len(v.Others) != 2 || v.base().Figure.value() <= 0 || v.Others[1].Name != "copier" || v.Others[1].Added == nil {
		t.Errorf("the base and the peer in the same turns: got %+v", v.Others)
	}
	if v, _ := r.row("log.lookup"); len(v.Others) > 0 {
		t.Errorf("a peer has looked into our log: %+v", v.Others)
	}
	if !bytes.Contains(page, []byte("| base ")) && !bytes.Contains(page, []byte(" base |")) || !bytes.Contains(page, []byte("Peers: copier.")) {
		t.Errorf("the page shows no base, or does not name the peer:\n%s", page)
	}
	if _, ok := r.row("shims.200.cpu"); ok {
		t.Error("something was measured that was not asked for")
	}
	for _, name := range []string{"latency.cpu.pprof", "latency.heap.pprof", "extension.cpu.pprof"} {
		if info, err := os.Stat(filepath.Join(o.profiles, name)); err != nil || info.Size() == 0 {
			t.Errorf("the profile %s: %v", name, err)
		}
	}
}

func TestRunWithoutPrograms(t *testing.T) {
	err := run(options{bin: t.TempDir(), turns: 1, only: regexp.MustCompile("^latency$")})
	if err == nil || !strings.Contains(err.Error(), "make build") {
		t.Errorf("got %v", err)
	}
}
