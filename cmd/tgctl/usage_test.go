package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// walk calls visit for each command that is shown to people.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	if cmd.Hidden {
		return
	}
	visit(cmd)
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// The help texts are golden files, so that reviews show their wording.
func TestHelp(t *testing.T) {
	var names []string
	walk(newConsole("").app.rootCmd(), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())
		name := strings.Join(path, "-")
		names = append(names, name+".txt")
		t.Run(name, func(t *testing.T) {
			c := newConsole("")
			if code := c.run(t, append(path[1:], "--help")...); code != 0 || c.Err.Len() > 0 {
				t.Fatalf("exit %d: %s", code, c.Err.String())
			}
			help := c.Out.String()
			consoletest.MustFit(t, help, 80)
			consoletest.Golden(t, "help/"+name, help)
			if !strings.Contains(help[strings.LastIndex(help, "\n\n"):], "\nExample:\n  $ tgctl ") {
				t.Errorf("the help does not end with an example:\n%s", help)
			}
			if code := c.run(t, append([]string{"help"}, path[1:]...)...); code != 0 || c.Out.String() != help {
				t.Errorf("`tgctl help` says something else: exit %d\n%s", code, c.Out.String())
			}
		})
	})
	files, err := os.ReadDir(filepath.Join("testdata", "golden", "help"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(names, file.Name()) {
			t.Errorf("%s is the help of no command", file.Name())
		}
	}
}

// Every command that lists or shows something has --json.
func TestJSONEverywhere(t *testing.T) {
	without := []string{"tgctl", "tgctl completion", "tgctl daemon", "tgctl daemon start", "tgctl daemon stop",
		"tgctl daemon restart", "tgctl daemon profile", "tgctl daemon install", "tgctl daemon uninstall", "tgctl policy",
		"tgctl presence enrol", "tgctl presence remove", "tgctl presence rotate",
		"tgctl policy init", "tgctl policy schema", "tgctl audit export", "tgctl audit report", "tgctl approvals watch", "tgctl queue", "tgctl grants revoke",
		"tgctl wrap", "tgctl unwrap", "tgctl protect", "tgctl unprotect", "tgctl notify", "tgctl slack", "tgctl dashboard", "tgctl demo",
		"tgctl fleet apply", "tgctl fleet audit", "tgctl fleet audit pull", "tgctl fleet audit verify", "tgctl fleet flush", "tgctl fleet group", "tgctl fleet init", "tgctl fleet issue", "tgctl fleet join", "tgctl fleet key",
		"tgctl fleet leave", "tgctl fleet policy", "tgctl fleet policy confirm", "tgctl fleet policy export", "tgctl fleet policy promote", "tgctl fleet policy publish", "tgctl fleet policy renew-root", "tgctl fleet revoke", "tgctl fleet run", "tgctl fleet show-outgoing", "tgctl fleet token"}
	walk(newConsole("").app.rootCmd(), func(cmd *cobra.Command) {
		if has := cmd.Flags().Lookup("json") != nil; has == slices.Contains(without, cmd.CommandPath()) {
			t.Errorf("%s: has --json: %v", cmd.CommandPath(), has)
		}
		// Members added to a message do not have the name of one of its own members.
		for line := range strings.SplitSeq(cmd.Annotations[ui.FieldsNote], "\n") {
			_, names, titled := strings.Cut(line, ": ")
			if !titled {
				names = line
			}
			if all := strings.Split(names, ", "); len(all) > len(slices.Compact(slices.Sorted(slices.Values(all)))) {
				t.Errorf("%s: a member is there twice: %s", cmd.CommandPath(), line)
			}
		}
	})
}

// hint finds commands in the texts of the programs, where they are to be run.
var hint = regexp.MustCompile("(?:^|[:`] ?|\\$ )tgctl ([a-z]+(?:-[a-z]+)*(?: [a-z]+(?:-[a-z]+)*)*)((?: --[a-z][a-z-]*)*)")

// TestHintsNameCommands checks that each command that a text tells a person to run exists, with its
// flags.
func TestHintsNameCommands(t *testing.T) {
	root, seen := newConsole("").app.rootCmd(), 0
	root.InitDefaultHelpCmd()
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range hint.FindAllStringSubmatch(text, -1) {
				words := strings.Fields(found[1])
				if slices.Contains([]string{"did", "starts", "would"}, words[0]) {
					continue // a sentence about tgctl
				}
				seen++
				verb, rest, err := root.Find(words)
				if err != nil || !verb.HasParent() || len(rest) > 0 && verb.HasSubCommands() {
					t.Errorf("%s: there is no `tgctl %s`", path, found[1])
					continue
				}
				for _, flag := range strings.Fields(found[2]) {
					if verb.Flag(strings.TrimPrefix(flag, "--")) == nil {
						t.Errorf("%s: `tgctl %s` has no flag %s", path, found[1], flag)
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || seen < 200 {
		t.Errorf("%d hints are there, error %v", seen, err)
	}
}

// TestAlone checks that tgctl alone says in three lines how things stand, with a daemon and without one, and
// then prints its help.
func TestAlone(t *testing.T) {
	f := consoletest.Start(t)
	f.Status = consoletest.Healthy()
	f.Status.Pending = 2
	for socket, want := range map[string][]string{
		f.Socket:                    {"daemon ", "running", "governed ", "waiting ", "2 questions (tgctl approvals)"},
		"/nonexistent/control.sock": {"daemon ", "not running; to start it: tgctl daemon start", "governed "},
	} {
		c := newConsole(socket)
		if code := c.run(t); code != 0 {
			t.Errorf("exit %d: %s", code, c.Err.String())
		}
		state, help, _ := strings.Cut(c.Out.String(), "\n\n")
		for _, text := range want {
			if !strings.Contains(state, text) {
				t.Errorf("it does not say %q:\n%s", text, state)
			}
		}
		if !strings.HasPrefix(help, "Usage: tgctl") {
			t.Errorf("no help follows:\n%s", c.Out.String())
		}
	}
}

// TestMisuse checks that an invalid command line exits 2, does nothing, and says where to read
// more.
func TestMisuse(t *testing.T) {
	for _, test := range []struct{ line, says string }{
		{"nonsense", `unknown command "nonsense" for "tgctl"`},
		{"stauts", "did you mean status?"},
		{"--nonsense", "unknown flag: --nonsense"},
		{"approvals aprove A-1", `unknown command "aprove" for "tgctl approvals"; did you mean approve?`},
		{"approvals A-1", `unknown command "A-1"`},
		{"approvals list A-1", "unexpected argument"},
		{"approvals show", "ID is missing"},
		{"approvals show A-1 A-2", "unexpected argument"},
		{"approvals deny", "either ids of questions"},
		{"tools files", "unknown command"},
		{"tools diff", "SERVER/TOOL is missing"},
		{"tools accept", "SERVER/TOOL is missing"},
		{"tools accept a/b c/d --definition 0011223344", "--definition needs exactly one tool"},
		{"tools accept a/b --definition xyz", "hexadecimal"},
		{"servers accept", "SERVER is missing"},
		{"policy", "needs a command; use one of: backtest, check, explain"},
		{"policy chekc", "did you mean check?"},
		{"policy schema x", "no schema for \"x\"; use one of: config, project, test"},
		{"policy init x", "unexpected argument"},
		{"policy explain", "--server is missing"},
		{"policy explain --server x", "name one of --tool, --uri and --prompt"},
		{"policy explain --server x --tool a --uri b", "name one of"},
		{"policy explain --server x --tool a --args {", "--args is not valid JSON"},
		{"policy explain x", "unexpected argument"},
		{"policy explain - -", "unexpected argument"},
		{"policy explain - --server x", "with -, only the flags"},
		{"logs", "NAME is missing"},
		{"logs a b", "unexpected argument"},
		{"restart", "NAME is missing"},
		{"ext instal x", "did you mean install?"},
		{"ext install", "DIR or NAME is missing"},
		{"ext run --nonsense a b", "unknown flag"},
		{"daemon", "needs a command; use one of:"},
		{"daemon start now", "unexpected argument"},
		{"status --jsno", "unknown flag"},
		{"status --json=maybe", "needs true or false"},
		{"help nonsense", `unknown command "nonsense"`},
		{"completion", "the name of a shell is missing"},
		{"completion tcsh", "unsupported shell"},
		{"man", "DIR is missing"},
	} {
		c := newConsole("/nonexistent/control.sock")
		if code := c.run(t, strings.Fields(test.line)...); code != ui.ExitUsage {
			t.Errorf("tgctl %s: exit %d, want %d", test.line, code, ui.ExitUsage)
		}
		if !strings.Contains(c.Err.String(), test.says) || !strings.Contains(c.Err.String(), "--help`.") || c.Out.Len() > 0 {
			t.Errorf("tgctl %s: stdout %q, stderr %q, want %q", test.line, c.Out.String(), c.Err.String(), test.says)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		c := newConsole("")
		if code := c.run(t, "completion", shell); code != 0 || !strings.Contains(c.Out.String(), "__complete") {
			t.Errorf("%s: exit %d, %d bytes", shell, code, c.Out.Len())
		}
	}
	// The commands that a shell runs for completion print ids, and never start a daemon.
	f := consoletest.Start(t)
	f.Approvals = consoletest.Questions()
	c := newConsole(f.Socket)
	c.run(t, "__complete", "approvals", "approve", "")
	if want := "A-2\tcreate_issue on github\n"; !strings.HasPrefix(c.Out.String(), want) {
		t.Errorf("completes to %q, want %q first", c.Out.String(), want)
	}
	if strings.ContainsAny(c.Out.String(), "\x1b\u202e") {
		t.Errorf("a name is handed to the shell as it is: %q", c.Out.String())
	}
	c = newConsole("/nonexistent/control.sock")
	if c.run(t, "__complete", "approvals", "approve", ""); !strings.HasPrefix(c.Out.String(), ":4\n") {
		t.Errorf("without a daemon: %q", c.Out.String())
	}
}

// A response may be as large as the API allows.
func TestLargeAnswer(t *testing.T) {
	f := consoletest.Start(t)
	f.Approvals = consoletest.Questions()[:1]
	f.Approvals[0].Arguments = []byte(`{"name":"x","arguments":{"content":"` + strings.Repeat("x", 10<<20) + `"}}`)
	c := newConsole(f.Socket).pipe()
	if code := c.run(t, "approvals", "--json"); code != 0 || c.Out.Len() < 10<<20 {
		t.Errorf("exit %d, %d bytes: %.200s", code, c.Out.Len(), c.Err.String())
	}
	if n := proto.Size(f.Approvals[0]); n < 10<<20 {
		t.Errorf("the answer had only %d bytes", n)
	}
}

// A failed write, such as to a full disk or a closed pipe, is an error.
func TestFailedWrite(t *testing.T) {
	f := consoletest.Start(t)
	f.Approvals = consoletest.Questions()
	c := newConsole(f.Socket)
	f.Status, f.Set, f.Processes, f.Sessions, f.Records = consoletest.Healthy(), consoletest.InForce(), consoletest.RunningProcesses(), consoletest.OpenSessions(), consoletest.Recorded()
	f.Pins, f.Diffs, f.Servers = consoletest.SeenPins(), consoletest.SeenDiffs(), consoletest.SeenServers()
	f.Ext.Installed, f.Ext.Logs, f.Ext.Look = consoletest.InstalledExtensions(), consoletest.LogLines(), consoletest.LookAtScrubber()
	f.Ext.Events = []*pb.InvokeEvent{consoletest.Output("text", "a"), consoletest.End(0)}
	f.Processes = append(f.Processes, consoletest.KeptProcesses()...)
	for _, line := range []string{"approvals", "approvals --json", "approvals show A-3", "status", "status --json", "ps", "sessions",
		"tools", "tools --json", "tools diff files/echo", "servers", "servers --json", "policy show", "ps --wide", "logs scrubber", "logs scrubber --json", "restart quota", "ext", "ext --json", "ext show quota", "ext config scrubber", "ext config scrubber get mode",
		"ext config scrubber set a b", "ext install --yes .", "ext remove --yes quota", "ext run quota x", "ext run --json quota x", "audit", "audit --json", "audit show 4", "metrics", "metrics --json", "version"} {
		c.app.Out = consoletest.WriterFunc(func([]byte) (int, error) { return 0, os.ErrClosed })
		if code := c.run(t, strings.Fields(line)...); code != ui.ExitFailed {
			t.Errorf("tgctl %s: exit %d, want %d", line, code, ui.ExitFailed)
		}
	}
}
