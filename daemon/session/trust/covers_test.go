package trust

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Acceptance covers another start only if nothing differs but the location of a program that PATH
// leads to.
func TestWhatAnAgreementCovers(t *testing.T) {
	fresh := func() Start {
		return Start{
			Server: "s", Project: "/p", Command: []string{"node", "s.js"}, Sets: []string{"TOKEN"}, Loaders: []Loader{{"NODE_OPTIONS", "v"}},
			Files: []File{
				{Role: Program, Path: "/usr/bin/node", Digest: "a", Found: true}, {Role: Interpreter, Path: "/usr/bin/bash", Digest: "b", Found: true},
				{Role: Script, Path: "/p/s.js", Digest: "c"},
			},
		}
	}
	for _, test := range []struct {
		name    string
		change  func(*Start)
		covered bool
	}{
		{"nothing", func(*Start) {}, true},
		{"the place of the program", func(s *Start) { s.Files[0].Path, s.Files[0].Digest = "/opt/bin/node", "z" }, true},
		{"without an interpreter", func(s *Start) { s.Files = slices.Delete(s.Files, 1, 2) }, true},
		{"the program at the same place", func(s *Start) { s.Files[0].Digest = "z" }, false},
		{"a program that could not be read", func(s *Start) { s.Files[0].Path, s.Files[0].Digest = "/opt/bin/node", "" }, false},
		{"a program that PATH does not lead to", func(s *Start) { s.Files[0].Found = false }, false},
		{"one more that it does not lead to", func(s *Start) { s.Files = append(s.Files, File{Role: Argument, Path: "/p/x.js", Digest: "x"}) }, false},
		{"the script", func(s *Start) { s.Files[2].Digest = "z" }, false},
		{"the place of the script", func(s *Start) { s.Files[2].Path = "/p/t.js" }, false},
		{"what the script is", func(s *Start) { s.Files[2].Role = Argument }, false},
		{"no script", func(s *Start) { s.Files = s.Files[:2] }, false},
		{"the command", func(s *Start) { s.Command = []string{"node", "--x", "s.js"} }, false},
		{"where an argument ends", func(s *Start) { s.Command = []string{"nodes", ".js"} }, false},
		{"what is set", func(s *Start) { s.Sets = nil }, false},
		{"an address", func(s *Start) { s.Remote = &Remote{Host: "x.test", Terms: "t"} }, false},
		{"a loader", func(s *Start) { s.Loaders = []Loader{{"NODE_OPTIONS", "w"}} }, false},
	} {
		agreed, now := fresh(), fresh()
		test.change(&now)
		if got := agreed.covers(&now); got != test.covered {
			t.Errorf("%s: covered %v", test.name, got)
		}
		found := test.name == "a program that PATH does not lead to" // how a file was found is not part of the file
		if same := agreed.digest() == now.digest(); same != (test.name == "nothing" || found) {
			t.Errorf("%s: the same digest: %v", test.name, same)
		}
	}
	agreed := fresh()
	agreed.Sets = []string{"PATH", "TOKEN"}
	if now := agreed; agreed.covers(&now) {
		t.Error("where the project sets PATH, which program it leads to is its doing")
	}
}

// PATH leads to a program only from a bare name, and only if nobody else can replace the program.
func TestWhatPATHLeadsTo(t *testing.T) {
	v := &launchExamination{}
	for _, test := range []struct {
		name        string
		word        string
		folder, bin os.FileMode
		found       bool
	}{
		{"a bare name", "tool", 0o755, 0o755, true},
		{"a path", "bin/tool", 0o755, 0o755, false},
		{"an absolute path", "/bin/tool", 0o755, 0o755, false},
		{"a program that others write", "tool", 0o755, 0o777, false},
		{"a folder that others write", "tool", 0o777, 0o755, false},
		{"a folder that others write, with the sticky bit", "tool", 0o777 | os.ModeSticky, 0o755, false},
	} {
		dir := filepath.Join(t.TempDir(), "bin")
		path := filepath.Join(dir, "tool")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		for at, mode := range map[string]os.FileMode{dir: test.folder, path: test.bin} {
			if err := os.Chmod(at, mode); err != nil {
				t.Fatal(err)
			}
		}
		if got := v.found(test.word, path); got != test.found {
			t.Errorf("%s: found %v", test.name, got)
		}
	}
}

// An interpreter that a program outside the project names in its first line, but that lies in the
// project, does not count as found by PATH.
func TestAnInterpreterOfTheProject(t *testing.T) {
	d := newDesk(t)
	d.bin("python3")
	d.file("server.py", "serve()", 0o644)
	l := d.shipped("python3", "server.py")
	d.agree(l)
	evil := d.file(filepath.Join(d.repo, "evil"), "\x7fELF evil", 0o755)
	shim := d.file(filepath.Join(d.home, "shims", "python3"), "#!"+evil+"\n", 0o755)
	l.Env = slices.Clone(l.Env)
	l.Env[1] = "PATH=" + filepath.Dir(shim) + ":" + filepath.Join(d.home, ".local", "bin")
	if got := d.ask(d.resolved(l)); got != "changed" {
		t.Errorf("%s, want changed", got)
	}
}
