package facts_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// shellCall returns a call of the agent's shell with the arguments of a command in a folder.
func shellCall(command, cwd, project string) *gate.Call {
	raw, err := json.Marshal(map[string]string{"command": command, "cwd": cwd})
	if err != nil {
		panic(err)
	}
	return ownToolCall("shell", string(raw), project)
}

// grainTree makes a project with folders and a link out of it.
func grainTree(t *testing.T) string {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"p/sub/deep", "p/subway", "q"} {
		if err := os.MkdirAll(filepath.Join(top, folder), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"p/out": "../q", "p/a,b c": "../q", "in": "p/sub"} {
		if err := os.Symlink(to, filepath.Join(top, from)); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

func TestGrain(t *testing.T) {
	top := grainTree(t)
	f := facts.New(facts.Options{Home: home})
	for _, test := range []struct{ command, cwd, want string }{
		{"git push", "p", "git|push|p"},
		{"git push origin main", "p/sub", "git|push|p/sub"},
		{"npm run build 2>&1", "p/sub/../sub", "npm|run build|p/sub"},
		{"go test ./...", "in", "go|test|p/sub"},
		{"ls sub/deep", "p", "ls||p"},
		{"pytest --cov=sub -k 'a or b'", "p", "pytest||p"},
		{"git log --format=%H", "p", "git|log|p"},
		{"git merge -", "p", "git|merge|p"},
		{"ls - -- ''", "p", "ls||p"},
		{"git push", "q", "does not run in the project"},
		{"git push", "p/out", "does not run in the project"},
		{"git push", "nowhere", "more than one command"}, // its folder is not known
		{"git push; ls", "p", "more than one command"},
		{"git push --force", "p", "deletes, sends or changes"},
		{"ls ../q", "p/sub", "../q may lead out"},
		{"ls ..", "p/sub", ".. may lead out"},
		{"ls out", "p", "out may lead out"},
		{"ls out/x", "p", "out/x may lead out"},
		{"ls /etc", "p", "/etc may lead out"},
		{"tsc --outDir=/tmp", "p", "may lead out"},
		{"tsc --paths=a,/tmp", "p", "may lead out"},
		{"tsc @/etc/x", "p", "may lead out"},
		{"tsc '--a b /etc'", "p", "may lead out"},
		{"tsc -I/usr", "p", "may lead out"},
		{"make -C/usr check", "p", "does not run in the project"},
		{"ninja -C.. check", "p", "may lead out"},
		{"ninja -C../q=1 check", "p", "may lead out"},
		{"gradle -pout check", "p", "may lead out"},
		{"gradle -spout check", "p", "may lead out"},
		{"ninja -Csub check", "p", "ninja|check|p"},
		{"ninja -" + strings.Repeat("v", 100) + " check", "p", "may lead out"},
		{"ls =git", "p", "may lead out"},
		{"pytest '--cov=a,b c'", "p", "may lead out"},
		{"pytest '--cov=x,a,b c/d'", "p", "may lead out"},
		{"git commit -m " + strings.Repeat("a", 5000), "p", "more words"},
		{"make -f ../x check", "p", "may lead out"},
		{"tsc --x='~/a'", "p", "may lead out"},
		{"tsc 'a$(x)'", "p", "may lead out"},
		{"npm install x", "p", "can do more than these words say"},
		{"npm run deploy", "p", "acts or sends by its name"},
		{"make publish", "p", "acts or sends by its name"},
		{"deploy-prod", "p", "can do more than its name says"},
		{"git push --repo=https://a.example/x", "p", "may lead out"},
		{"make " + token, "p", "looks like a secret"},
		{"make " + strings.Repeat("a", 201), "p", "too long"},
		{"ls" + strings.Repeat(" a", 65), "p", "more words"},
		{"ls " + top + "/p/sub", "p", "ls||p"},
	} {
		c := shellCall(test.command, filepath.Join(top)+"/"+test.cwd, filepath.Join(top, "p"))
		_ = f.Of(t.Context(), c)
		g, again := c.Grain, f.Grain(t.Context(), top+"/p", shellCall(test.command, top+"/"+test.cwd, "").Arguments())
		if g == nil || again == nil || *g != *again {
			t.Errorf("%s: judged as %+v, counted as %+v", test.command, g, again)
			continue
		}
		got := g.Alone
		if got == "" {
			got = g.Program + "|" + g.Verb + "|" + strings.TrimPrefix(g.Folder, top+"/")
		}
		if isReason := g.Alone != ""; isReason && !strings.Contains(got, test.want) || !isReason && got != test.want {
			t.Errorf("%s in %s: got %s, want %s", test.command, test.cwd, got, test.want)
		}
	}
	for tool, args := range map[string]string{"read": `{"path":"a"}`, "write": `{"path":"a"}`, "fetch": `{"url":"http://a.example"}`, "mcp": `{"server":"s","tool":"t"}`, "shell": `{}`} {
		c := ownToolCall(tool, args, top+"/p")
		if f.Of(t.Context(), c); c.Grain != nil {
			t.Errorf("%s has the grain %+v", tool, c.Grain)
		}
	}
	if g := f.Grain(t.Context(), top+"/p", []byte(`{"command":"ls"}`)); g == nil || !strings.Contains(g.Alone, "in which folder") {
		t.Errorf("without a folder: %+v", g)
	}
	if g := f.Grain(t.Context(), "", []byte(`{"command":"ls","cwd":"`+top+`/p"}`)); g == nil || g.Alone == "" {
		t.Errorf("without a project: %+v", g)
	}
}

func TestGrainCovers(t *testing.T) {
	a := gate.Grain{Program: "git", Verb: "push", Folder: "/p/sub"}
	for _, test := range []struct {
		other gate.Grain
		want  bool
	}{
		{a, true},
		{gate.Grain{Program: "git", Verb: "push", Folder: "/p/sub/deep"}, true},
		{gate.Grain{Program: "git", Verb: "push", Folder: "/p/subway"}, false},
		{gate.Grain{Program: "git", Verb: "push", Folder: "/p"}, false},
		{gate.Grain{Program: "git", Verb: "pull", Folder: "/p/sub"}, false},
		{gate.Grain{Program: "git", Folder: "/p/sub"}, false},
		{gate.Grain{Program: "hg", Verb: "push", Folder: "/p/sub"}, false},
		{gate.Grain{Program: "git", Verb: "push", Folder: "/p/sub", Alone: "why"}, false},
	} {
		if got := a.Covers(&test.other); got != test.want {
			t.Errorf("%+v: %v", test.other, got)
		}
	}
	alone := gate.Grain{Program: "git", Verb: "push", Folder: "/p/sub", Alone: "why"}
	if (&gate.Grain{}).Covers(&gate.Grain{}) || (*gate.Grain)(nil).Covers(&a) || a.Covers(nil) || alone.Covers(&a) {
		t.Error("nothing covers something")
	}
}

// A grant made from one line covers another only if that is one simple command of the same program
// and verb, in the folder or below, of which nothing is true that is a reason to ask.
func TestGrainCoversOnlyTheLike(t *testing.T) {
	top := grainTree(t)
	random := rand.New(rand.NewPCG(7, 7))
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	line := func() (text, folder string) {
		words := []string{pick("git", "git", "npm", "go", "ls", "make", "./git", "sudo git", "A=1 git", "cat", "curl", "rm")}
		words = append(words, pick("push", "push", "test", "run build", "status", "stash", ""))
		for range random.IntN(3) {
			words = append(words, pick("--force", "-f", "origin", "main", ":x", "+x", "a", "../q", "/etc", "~/.ssh/id_rsa", "$X", "$(ls)", "*", "'a b'", "out", "--flag=../../q", "https://a.example"))
		}
		text = strings.Join(words, " ") + pick("", "", "", "", "; ls", " && ls", " | sh", " > /etc/x", " 2>&1", " &", "\nls", " <<< x")
		return text, pick("p", "p", "p/sub", "p/sub/deep", "p/subway", "q", "p/out")
	}
	f := facts.New(facts.Options{Home: home})
	of := func(text, folder string) (*gate.Grain, []gate.Fact) {
		c := shellCall(text, top+"/"+folder, top+"/p")
		found := f.Of(t.Context(), c)
		return c.Grain, found
	}
	covered := 0
	for range 10_000 {
		a, folder := line()
		b, other := line()
		if random.IntN(3) == 0 {
			words := strings.Fields(a)
			b = strings.Join(append(words, pick("x", "--force", ":x", "; ls", "$(ls)")), " ")
		}
		of1, _ := of(a, folder)
		of2, found := of(b, other)
		if !of1.Covers(of2) {
			continue
		}
		covered++
		first, second := shell.Parse(a, shell.Options{Dir: "/p"}).Simple(), shell.Parse(b, shell.Options{Dir: "/p"}).Simple()
		switch {
		case first == nil || second == nil || first.Program != second.Program:
			t.Errorf("%q covers %q", a, b)
		case len(first.Args) > 0 && first.Program != "ls" && first.Program != "cat" && first.Args[0].Value != second.Args[0].Value:
			t.Errorf("%q covers the verb of %q", a, b)
		case other != folder && !strings.HasPrefix(other, folder+"/"):
			t.Errorf("in %s, it covers %s", folder, other)
		case len(found) > 0:
			t.Errorf("%q covers %q, of which is true: %v", a, b, found)
		case strings.ContainsAny(strings.ReplaceAll(b, "2>&1", ""), ";|&$*>\n"):
			t.Errorf("%q covers %q", a, b)
		}
	}
	if covered < 20 {
		t.Errorf("only %d lines were covered: they are too different", covered)
	}
}
