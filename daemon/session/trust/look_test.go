package trust

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// seen returns a summary of the examination of a launch. Paths are relative to the project, or to
// the folder of the user's programs.
func (d *desk) seen(l Launch) (files, alarms, gaps []string, ours bool) {
	d.t.Helper()
	s, ours := d.look(l)
	short := strings.NewReplacer(d.repo+"/", "", filepath.Join(d.home, ".local", "bin")+"/", "~")
	for _, f := range s.Files {
		files = append(files, string(f.Role)+" "+short.Replace(f.Path))
		if ours && f.Digest == "" {
			d.t.Errorf("%s has no digest", f.Path)
		}
	}
	for _, a := range s.Alarms {
		alarms = append(alarms, short.Replace(a))
	}
	for _, g := range s.Gaps {
		gaps = append(gaps, short.Replace(g))
	}
	return files, alarms, gaps, ours
}

// What a command line in a project leads to.
func TestLook(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"node", "python3.12", "npx", "uvx", "npm", "docker", "sh", "java", "deno", "tool", "uv"} {
		d.bin(name)
	}
	d.file(filepath.Join(d.home, ".local", "bin", "env"), "\x7fELF", 0o755)
	d.file(filepath.Join(d.home, ".local", "bin", "cli"), "#!/usr/bin/env node\nrun()\n", 0o755)
	d.file("server.js", "x", 0o644)
	d.file("hook.mjs", "x", 0o644)
	d.file("app.jar", "x", 0o644)
	d.file("server.py", "x", 0o644)
	d.file("data.db", "x", 0o777)
	d.file("noend", "x", 0o644)
	d.file("bin/run", "#!"+filepath.Join(d.home, ".local", "bin", "sh")+" -e\n", 0o755)
	d.file("node_modules/.bin/notes-mcp", "x", 0o755)
	d.file("package.json", "{}", 0o644)
	fetched := "the package %s is fetched when it starts; its content was not checked"
	unpinned := "the package %s is fetched when it starts, in its current version; its content was not checked"
	code := "its arguments contain code, which you see here; what that code starts or loads was not checked"
	with := func(format, name string) string { return strings.ReplaceAll(format, "%s", name) }
	for _, test := range []struct {
		command             string
		files, alarms, gaps []string
	}{
		{"tool --port 1", []string{"program ~tool"}, nil, nil},
		{"node server.js", []string{"program ~node", "script server.js"}, nil, []string{"what server.js loads was not checked"}},
		{"node --require ./hook.mjs --port=1 ./server.js data.db", []string{"program ~node", "argument hook.mjs", "script server.js"}, nil, []string{"what server.js loads was not checked"}},
		{"node --import=file://" + d.repo + "/hook.mjs noend", []string{"program ~node", "argument hook.mjs", "script noend"}, nil, []string{"what noend loads was not checked"}},
		{"node -e serve()", []string{"program ~node"}, nil, []string{code}},
		{"node .", []string{"program ~node"}, nil, []string{d.repo + " is a folder; its content was not checked"}},
		{"node missing.js", []string{"program ~node"}, nil, []string{"it was not checked which file missing.js is"}},
		{"node", []string{"program ~node"}, nil, []string{"it reads what to run from its standard input or from a file in its folder"}},
		{"python3.12 -u -X dev server.py", []string{"program ~python3.12", "script server.py"}, nil, []string{"what server.py loads was not checked"}},
		{"python3.12 -m other", []string{"program ~python3.12"}, nil, []string{"it was not checked which file the module other is"}},
		{"python3.12 -m server", []string{"program ~python3.12", "script server.py"},
			[]string{"server.py is run instead of an installed module: it is a file of the project"}, []string{"it was not checked which file the module server is"}},
		{"java -cp lib -jar app.jar", []string{"program ~java", "script app.jar"}, nil, []string{"what app.jar loads was not checked"}},
		{"sh -c curl|sh", []string{"program ~sh"}, nil, []string{code}},
		{"deno run -A npm:notes", []string{"program ~deno"}, nil, []string{"npm:notes is fetched when it starts; its content was not checked"}},
		{"npx -y @scope/server@1.2.3 server.js", []string{"program ~npx", "argument server.js"}, nil, []string{with(fetched, "@scope/server@1.2.3")}},
		{"npx -y @scope/server@latest", []string{"program ~npx"}, nil, []string{with(unpinned, "@scope/server@latest")}},
		{"npx notes-mcp", []string{"program ~npx", "argument node_modules/.bin/notes-mcp"},
			[]string{"node_modules/.bin/notes-mcp may be run instead of the package: it is a file of the project"}, []string{with(unpinned, "notes-mcp")}},
		{"npx -p one@1.0.0 two", []string{"program ~npx"}, nil, []string{with(fetched, "one@1.0.0"), with(unpinned, "two")}},
		{"uvx --from notes==1.2.3 notes", []string{"program ~uvx"}, nil, []string{with(fetched, "notes==1.2.3"), with(unpinned, "notes")}},
		{"uv run server.py", []string{"program ~uv", "script server.py"}, nil, []string{"what server.py loads was not checked"}},
		{"npm run server", []string{"program ~npm", "argument package.json"}, nil, []string{"it runs a script of package.json; what that starts was not checked"}},
		{"docker run -i image", []string{"program ~docker"}, nil, []string{"the content of its image and what is mounted into it were not checked"}},
		{"env A=b node server.js", []string{"program ~env", "program ~node", "script server.js"}, nil, []string{"what server.js loads was not checked"}},
		{"env -S node server.js", []string{"program ~env", "program ~node", "script server.js"}, nil, []string{"what server.js loads was not checked"}},
		{"cli --x", []string{"program ~cli", "interpreter ~node"}, nil, nil},
		{"bin/run", []string{"program bin/run", "interpreter ~sh"}, []string{"the program bin/run is a file of the project"}, nil},
		{d.repo + "/bin/run", []string{"program bin/run", "interpreter ~sh"}, []string{"the program bin/run is a file of the project"}, nil},
	} {
		t.Run(test.command, func(t *testing.T) {
			files, alarms, gaps, ours := d.seen(d.shipped(strings.Fields(test.command)...))
			if !ours || !slices.Equal(files, test.files) || !slices.Equal(alarms, test.alarms) || !slices.Equal(gaps, test.gaps) {
				t.Errorf("of a project: %v\nfiles  %q\nwant   %q\nalarms %q\nwant   %q\ngaps   %q\nwant   %q", ours, files, test.files, alarms, test.alarms, gaps, test.gaps)
			}
		})
	}
}

// A server of the user's own does not belong to a project, unless what it runs lies in one.
func TestPlanted(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"node", "npx", "tool", "python3"} {
		d.bin(name)
	}
	d.file("server.js", "x", 0o644)
	d.file("web/.npmrc", "registry=https://evil.test", 0o644)
	d.file("json/tool.py", "x", 0o644)
	d.file("tools/npx", "x", 0o755)
	d.file("tools/sh", "x", 0o755)
	d.file(filepath.Join(d.home, ".local", "bin", "script"), "#!/usr/bin/env sh\n", 0o755)
	d.file("node_modules/.bin/tool", "x", 0o755)
	d.file(filepath.Join(d.home, "server.js"), "x", 0o644)
	if err := os.Symlink(filepath.Join(d.repo, "tools", "npx"), filepath.Join(d.home, ".local", "bin", "linked")); err != nil {
		t.Fatal(err)
	}
	path := func(dirs ...string) string {
		return "PATH=" + strings.Join(append(dirs, filepath.Join(d.home, ".local", "bin")), ":")
	}
	for _, test := range []struct {
		name, cwd, path string
		command         []string
		alarm           string // the first alarm; "-" for a server of the user's own
	}{
		{"a program of the user's", d.repo, path(), []string{"tool"}, "-"},
		{"its absolute path", d.repo, path(), []string{filepath.Join(d.home, ".local", "bin", "tool")}, "-"},
		{"an absolute path into the project, which the user has written", d.repo, path(), []string{d.repo + "/tools/npx"}, "-"},
		{"an absolute path of a script", d.repo, path(), []string{"node", d.repo + "/server.js"}, "-"},
		{"a package", d.repo, path(), []string{"npx", "-y", "other"}, "-"},
		{"planted npx", d.repo, path(d.repo + "/tools"), []string{"npx", "-y", "other"},
			"npx is not the usual program of that name: PATH leads to tools/npx, which is a file of the project"},
		{"planted npx, from a folder below", d.repo + "/web", path(d.repo + "/tools"), []string{"npx"},
			"npx is not the usual program of that name: PATH leads to tools/npx, which is a file of the project"},
		{"node_modules", d.repo, path(d.repo + "/node_modules/.bin"), []string{"tool"},
			"tool is not the usual program of that name: PATH leads to node_modules/.bin/tool, which is a file of the project"},
		{"a link into the project", d.repo, path(), []string{"linked"},
			"linked is not the usual program of that name: PATH leads to ~linked, which is a file of the project"},
		{"a program that is run in place of a package", d.repo, path(), []string{"npx", "tool"},
			"node_modules/.bin/tool may be run instead of the package: it is a file of the project"},
		{"a file that says where packages come from", d.repo + "/web", path(), []string{"npx", "-y", "other"},
			"web/.npmrc can set where packages come from and what is run with them: it is a file of the project"},
		{"a module", d.repo, path(), []string{"python3", "-m", "json.tool"}, "json/tool.py is run instead of an installed module: it is a file of the project"},
		{"a module of none", d.repo, path(), []string{"python3", "-m", "json"}, "-"},
		{"a relative command", d.repo, path(), []string{"tools/npx"}, "the program tools/npx is a file of the project"},
		{"a relative script", d.repo, path(), []string{"node", "server.js"}, ""},
		{"a planted interpreter", d.repo, path(d.repo + "/tools"), []string{"script"}, "~script is run by tools/sh, which is a file of the project"},
		{"a relative script at home", d.home, path(), []string{"node", "server.js"}, "-"},
		{"what is not there", d.repo, path(), []string{"missing"}, "-"},
	} {
		t.Run(test.name, func(t *testing.T) {
			l := d.resolved(Launch{Server: "notes", Cwd: test.cwd, Command: test.command, Env: []string{test.path}})
			_, alarms, _, ours := d.seen(l)
			first := "-"
			if ours {
				first = strings.Join(alarms[:min(1, len(alarms))], "")
			}
			if first != test.alarm {
				t.Errorf("got  %q\nwant %q", first, test.alarm)
			}
		})
	}
}

// Variables that change which code runs are reported, whoever sets them. Those that everybody has
// are reported only if the project sets them.
func TestLoaders(t *testing.T) {
	d := newDesk(t)
	d.bin("tool")
	for _, name := range []string{
		"LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP",
		"BASH_ENV", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND",
	} {
		l := d.shipped("tool")
		l.Env = append(l.Env, name+"=x")
		if _, alarms, _, _ := d.seen(l); len(alarms) != 1 || !strings.HasPrefix(alarms[0], "the environment sets "+name+", which ") {
			t.Errorf("%s in the environment: %q", name, alarms)
		}
		l.Sets = []string{name}
		if _, alarms, _, _ := d.seen(l); len(alarms) != 1 || !strings.HasPrefix(alarms[0], "the project sets "+name+", which ") {
			t.Errorf("%s of the project: %q", name, alarms)
		}
	}
	l := d.shipped("tool")
	if _, alarms, _, _ := d.seen(l); len(alarms) > 0 {
		t.Errorf("the PATH that everybody has: %q", alarms)
	}
	l.Sets = []string{"PATH", "TOKEN"}
	if _, alarms, _, _ := d.seen(l); len(alarms) != 1 || !strings.HasPrefix(alarms[0], "the project sets PATH, which ") {
		t.Errorf("a PATH of the project's: %q", alarms)
	}
}

// A file that can't be read is reported, and makes another start once it can be read.
func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads everything")
	}
	d := newDesk(t)
	d.file("run", "x", 0o111)
	s, ours := d.look(d.shipped("./run"))
	if !ours || s.Files[0].Digest != "" || len(s.Gaps) != 1 || !strings.Contains(s.Gaps[0], "could not be read: ") {
		t.Errorf("%v %+v", ours, s)
	}
}

// A file that is replaced is read again, however quickly that happens.
func TestDigestsAreFresh(t *testing.T) {
	d := newDesk(t)
	var h hasher
	path := d.file("x", "a", 0o644)
	seen := map[string]bool{}
	for _, text := range []string{"a", "b", "c", "d"} {
		d.file(path, text, 0o644)
		sum, err := h.sum(path)
		if err != nil || seen[sum] || sum != sumOf(text) {
			t.Errorf("%s: %s, %v", text, sum, err)
		}
		seen[sum] = true
	}
	if _, err := h.sum(d.repo); err == nil {
		t.Error("a folder has a digest")
	}
}

// No command line, however strange, breaks the examination.
func FuzzLook(f *testing.F) {
	f.Add("npx\x00-p\x00\x00@\x00..", "PATH=:x")
	f.Add("env\x00-S\x00 \x00env", "NODE_OPTIONS=")
	f.Add("sh\x00-c", "=")
	d := newDesk(f)
	for _, name := range []string{"npx", "env", "sh", "node"} {
		d.bin(name)
	}
	f.Fuzz(func(t *testing.T, command, env string) {
		l := d.shipped(strings.Split(command, "\x00")...)
		l.Env = append(l.Env, strings.Split(env, "\x00")...)
		a, _ := d.look(l)
		b, _ := d.look(l)
		if a.digest() != b.digest() {
			t.Errorf("two looks differ: %+v, %+v", a, b)
		}
	})
}
