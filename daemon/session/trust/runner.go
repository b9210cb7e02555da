package trust

import (
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// runner examines the arguments of a program that runs other code. It returns the index of the
// argument that names the script, or -1 if none names a file.
type runner func(v *launchExamination, args []string) int

// runners are listed with the names of their programs, without a version at the end.
var runners = []struct {
	programs string
	runs     runner
}{
	{"node nodejs bun deno tsx ts-node electron", script{
		values:  "-r --require --import --loader --experimental-loader -C --conditions --title --env-file",
		code:    "-e --eval -p --print",
		skipped: "run",
	}.find},
	{"python pythonw pypy pypy3", script{values: "-W -X -Q", code: "-c", modules: "-m"}.find},
	{"ruby perl lua luajit Rscript", script{values: "-I -r", code: "-e -E"}.find},
	{"php", script{values: "-d -c -z", code: "-r -B -R", files: "-f -F"}.find},
	{"sh bash dash zsh ksh fish ash", script{values: "-o -O --rcfile --init-file", code: "-c"}.find},
	{"pwsh powershell", script{values: "-ExecutionPolicy", code: "-Command -c -EncodedCommand", files: "-File -f"}.find},
	{"java", script{values: "-cp -classpath --class-path -p --module-path", modules: "-m --module", files: "-jar"}.find},
	{"dotnet", script{skipped: "exec run"}.find},
	{"npx pnpx bunx", fetcher{reads: ".npmrc bunfig.toml", values: "-p --package -w --workspace", code: "-c --call"}.find},
	{"npm", fetcher{reads: ".npmrc", values: "-p --package -w --workspace --prefix", code: "-c --call", skipped: "exec x", scripts: "start run run-script test restart"}.find},
	{"pnpm", fetcher{reads: ".npmrc", values: "--package -C --dir", code: "-c", skipped: "dlx exec", scripts: "start run run-script test"}.find},
	{"yarn", fetcher{reads: ".npmrc .yarnrc .yarnrc.yml", values: "-p --package", skipped: "dlx exec", scripts: "start run test"}.find},
	{"uvx", fetcher{reads: "uv.toml", values: "--with --index-url --default-index --python -p --from"}.find},
	{"uv", fetcher{reads: "uv.toml", values: "--with --index-url --default-index --python -p --from --directory --project", skipped: "tool run"}.find},
	{"pipx", fetcher{values: "--spec --python --index-url --pip-args", skipped: "run"}.find},
	{"go cargo", fetcher{values: "-C", skipped: "run"}.find},
	{"docker podman nerdctl", container},
}

// runnerOf returns the runner of a program, by the name it was called by or has, or nil if it runs
// only itself.
func runnerOf(name, path string) runner {
	for _, name := range []string{name, path, realPath(path)} {
		base := filepath.Base(name)
		short := strings.TrimRight(base, "0123456789.")
		for _, r := range runners {
			if has(r.programs, base) || has(r.programs, short) {
				return r.runs
			}
		}
	}
	return nil
}

// codeEndings are the extensions of files that are run or loaded.
var codeEndings = strings.Fields(".js .mjs .cjs .jsx .ts .mts .cts .tsx .py .pyc .pyz .pyw .rb .pl .pm .php .lua .sh .bash .zsh .fish " +
	".ps1 .jar .war .class .dll .exe .so .dylib .node .wasm .whl .r .R .jl .ex .exs .groovy .kts .scala .go .rs")

func isCode(path string) bool { return slices.Contains(codeEndings, filepath.Ext(path)) }

// behindEnv returns the command line that env(1) starts, or nil if words do not call env.
func behindEnv(words []string) []string {
	if len(words) == 0 || filepath.Base(words[0]) != "env" {
		return nil
	}
	for i := 1; i < len(words); i++ {
		word := words[i]
		switch {
		case word == "-S" || word == "--split-string":
			continue
		case strings.HasPrefix(word, "-S"):
			return append(strings.Fields(word[len("-S"):]), words[i+1:]...)
		case word == "-u" || word == "--unset" || word == "-C" || word == "--chdir":
			i++
		case strings.HasPrefix(word, "-"):
		case strings.Contains(word, "="):
		case len(strings.Fields(word)) > 1: // after -S
			return append(strings.Fields(word), words[i+1:]...)
		default:
			return words[i:]
		}
	}
	return nil
}

// script describes how a program is told which script to run: by the first word that is neither a
// flag nor the value of one.
type script struct {
	values  string // flags that take the next word
	code    string // flags whose next word is code
	modules string // flags whose next word names a module
	files   string // flags whose next word is the script
	skipped string // words that may precede the script
}

func (s script) find(v *launchExamination, args []string) int {
	for i := 0; i < len(args); i++ {
		word, next := args[i], -1
		if i+1 < len(args) {
			next = i + 1
		}
		switch {
		case word == "-":
			return -1
		case word == "--" || has(s.files, word):
			return next
		case has(s.code, word) || glued(s.code, word):
			v.gap("its arguments contain code, which you see here; what that code starts or loads was not checked")
			return -1
		case has(s.modules, word):
			if next > 0 {
				v.module(args[next])
			}
			return -1
		case has(s.values, word):
			i++
		case strings.HasPrefix(word, "-"):
		case has(s.skipped, word):
		case remote(word):
			v.gap("%s is fetched when it starts; its content was not checked", word)
			return -1
		default:
			return i
		}
	}
	v.gap("it reads what to run from its standard input or from a file in its folder")
	return -1
}

// module looks for a module in the server's working directory, which comes before installed
// modules.
func (v *launchExamination) module(name string) {
	v.gap("it was not checked which file the module %s is", name)
	path := filepath.Join(v.launch.Cwd, strings.ReplaceAll(name, ".", "/"))
	for _, path := range []string{path + ".py", path + "/__init__.py", path + "/__main__.py"} {
		if isFile(path) && v.inside(path) {
			v.add(Script, path, false)
			v.in = true
			v.alarm("%s is run instead of an installed module: it is a file of the project", path)
		}
	}
}

// fetcher describes how a program is told which package to fetch and run.
type fetcher struct {
	values  string // flags that take the next word
	code    string // flags whose next word is code
	skipped string // words that may precede the package
	scripts string // words that run scripts of package.json
	reads   string // project files that set, among other things, where packages come from
}

// pinned matches a package name with one exact version or a digest.
var pinned = regexp.MustCompile(`(?:@v?|==)\d+\.\d+(?:\.\d+)?[\w.+-]*$|@sha256:[0-9a-f]{64}$|@[0-9a-f]{40}$`)

func (f fetcher) find(v *launchExamination, args []string) int {
	for path := range v.upwards(strings.Fields(f.reads)...) {
		v.add(Argument, path, false)
		v.in = true
		v.alarm("%s can set where packages come from and what is run with them: it is a file of the project", path)
	}
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case has(f.code, word):
			v.gap("its arguments contain code, which you see here; what that code starts or loads was not checked")
			return -1
		case has(f.values, word):
			i++
			if i < len(args) && (word == "-p" || word == "--package" || word == "--from" || word == "--spec" || word == "--with") {
				v.fetched(args[i])
			}
		case strings.HasPrefix(word, "-"):
		case has(f.skipped, word):
		case has(f.scripts, word):
			v.packageScripts()
			return -1
		case isCode(word):
			return i // uv run server.py
		default:
			v.fetched(word)
			v.local(word)
			return -1
		}
	}
	return -1
}

// fetched reports a package that is fetched when the server starts, or a folder that is run like
// one.
func (v *launchExamination) fetched(name string) {
	switch {
	case strings.HasPrefix(name, ".") || filepath.IsAbs(name):
		v.gap("the content of the folder %s was not checked", name)
		v.in = v.in || !filepath.IsAbs(name) && v.inside(filepath.Join(v.launch.Cwd, name))
	case pinned.MatchString(name):
		v.gap("the package %s is fetched when it starts; its content was not checked", name)
	default:
		v.gap("the package %s is fetched when it starts, in its current version; its content was not checked", name)
	}
}

// packageScripts examines package.json, which tells a package manager what to run.
func (v *launchExamination) packageScripts() {
	v.gap("it runs a script of package.json; what that starts was not checked")
	if path := filepath.Join(v.launch.Cwd, "package.json"); isFile(path) {
		v.add(Argument, path, false)
		v.in = v.in || v.inside(path)
	}
}

// local looks for a program of the project that is run instead of a package.
func (v *launchExamination) local(name string) {
	name = strings.TrimSuffix(pinned.ReplaceAllString(name, ""), "@latest")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if name == "" || name == "." || name == ".." {
		return
	}
	for path := range v.upwards("node_modules/.bin/"+name, ".venv/bin/"+name) {
		v.add(Argument, path, false)
		v.in = true
		v.alarm("%s may be run instead of the package: it is a file of the project", path)
	}
}

// upwards yields the existing files with the given names in the server's working directory, and in
// its parents up to the project's root.
func (v *launchExamination) upwards(names ...string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for dir := realPath(v.launch.Cwd); v.planted && within(v.root, dir); dir = filepath.Dir(dir) {
			for _, name := range names {
				if path := filepath.Join(dir, name); isFile(path) && !yield(path) {
					return
				}
			}
			if dir == filepath.Dir(dir) {
				return
			}
		}
	}
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// container reports that an image can't be examined.
func container(v *launchExamination, _ []string) int {
	v.gap("the content of its image and what is mounted into it were not checked")
	return -1
}

func has(list, word string) bool { return slices.Contains(strings.Fields(list), word) }

// glued reports whether word is one of the short flags in list followed by its value, such as
// -c'print(1)'.
func glued(list, word string) bool {
	return slices.ContainsFunc(strings.Fields(list), func(flag string) bool {
		return len(flag) == 2 && len(word) > 2 && strings.HasPrefix(word, flag) && !strings.HasPrefix(word, "--")
	})
}

// remote reports whether a script is named by a URL from which it is fetched.
func remote(word string) bool {
	return hasAnyPrefix(word, "http:", "https:", "npm:", "jsr:", "data:")
}

func hasAnyPrefix(text string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(text, prefix) })
}
