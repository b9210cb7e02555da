package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStartErrors(t *testing.T) {
	noneLeft(t)
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("plain", "text", 0o644)
	write("noshebang", "echo hello", 0o755)
	write("nointerpreter", "#!/no/such/interpreter\n", 0o755)
	write("works", "#!/bin/sh\n", 0o755)
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	path := "PATH=" + dir
	for _, test := range []struct {
		name string
		spec Spec
		exit int
		says string
	}{
		{"empty", Spec{}, 127, "the command is empty"},
		{"nowhere in PATH", Spec{Command: "nowhere", Env: []string{path}}, 127, dir},
		{"no such path", Spec{Command: "/no/such/program"}, 127, "/no/such/program"},
		{"a file for a folder", Spec{Command: dir + "/plain/x"}, 127, "not found"},
		{"not executable", Spec{Command: "plain", Env: []string{path}}, 126, "permission denied"},
		{"a folder", Spec{Command: dir + "/folder"}, 126, "is a directory"},
		{"no first line", Spec{Command: dir + "/noshebang"}, 126, "#!"},
		{"no interpreter", Spec{Command: dir + "/nointerpreter"}, 126, "interpreter"},
		{"relative entry in PATH", Spec{Command: "works", Env: []string{"PATH=."}, Dir: dir}, 127, "not found"},
		{"no such directory", Spec{Command: "sh", Dir: dir + "/none"}, 125, "working directory"},
		{"a file for a directory", Spec{Command: "sh", Dir: dir + "/plain"}, 125, "not a directory"},
		{"NUL in an argument", Spec{Command: "sh", Args: []string{"a\x00b"}}, 126, "invalid argument"},
	} {
		c, err := Start(test.spec)
		if err == nil {
			c.Stop(t.Context(), Grace{})
			t.Errorf("%s: it was started", test.name)
			continue
		}
		if got := StartExit(err); got != test.exit || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: exit %d, error %q; want %d and %q", test.name, got, err, test.exit, test.says)
		}
	}
	t.Chdir(dir)
	if _, err := Resolve("works", []string{"PATH=:/bin"}, ""); StartExit(err) != 126 || !strings.Contains(err.Error(), "relative entry") {
		t.Errorf("a hit in the working directory: %v, want a refusal", err)
	}
	if _, err := Resolve("sh", []string{"PATH=:/bin"}, ""); err != nil {
		t.Errorf("a relative entry without a hit: %v", err)
	}
}

func TestResolve(t *testing.T) {
	dir := t.TempDir()
	for _, sub := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "a", "tool"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b", "tool"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(dir, "b", "tool")
	for _, test := range []struct {
		name, command, dir string
		env                []string
	}{
		{"first that can be run", "tool", "", []string{"PATH=" + dir + "/a:" + dir + "/b"}},
		{"first PATH counts", "tool", "", []string{"PATH=" + dir + "/b", "PATH=/nowhere"}},
		{"relative to Dir", "b/tool", dir, nil},
		{"relative to Dir, not to PATH", "./b/../b/tool", dir, []string{"PATH=/nowhere"}},
		{"absolute", want, "/", nil},
	} {
		if got, err := Resolve(test.command, test.env, test.dir); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", test.name, got, err, want)
		}
	}
	if got, err := Resolve("sh", nil, ""); err != nil || !strings.HasSuffix(got, "bin/sh") {
		t.Errorf("without a PATH: %q, %v", got, err)
	}
}
