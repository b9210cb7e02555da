package shell_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

var options = shell.Options{Dir: "/home/u/project", Home: "/home/u"}

// show writes a word so that a table can compare it.
func show(w shell.Word) string {
	many := ""
	if w.Many {
		many = "+"
	}
	switch w.Kind {
	case shell.Literal:
		if w.Value == "" || strings.ContainsAny(w.Value, " \n\t") {
			return fmt.Sprintf("%q", w.Value)
		}
		return w.Value
	case shell.Pattern:
		return "<" + w.Value + ">"
	}
	return "?" + w.Prefix + "~" + w.Suffix + many
}

// summary writes a line so that a table can compare it: commands, then what is
// opaque.
func summary(line *shell.Line) string {
	var out []string
	for _, c := range line.Commands {
		var b strings.Builder
		for _, w := range c.Wrappers {
			b.WriteString(w + ": ")
		}
		if c.Remote != "" {
			b.WriteString("(" + c.Remote + ") ")
		}
		if c.Program == "" {
			b.WriteString("-")
		} else {
			b.WriteString(c.Program)
		}
		for _, w := range c.Args {
			b.WriteString(" " + show(w))
		}
		for _, r := range c.Redirects {
			b.WriteString(" " + r.Op + show(r.Target))
		}
		for _, code := range c.Code {
			b.WriteString(" [" + code.Language + "]")
		}
		if len(c.Stdin) > 0 {
			fmt.Fprintf(&b, " |%v", c.Stdin)
		}
		if !slices.Equal(c.Dirs, []string{options.Dir}) {
			fmt.Fprintf(&b, " in %q", c.Dirs)
		}
		if c.Privileged {
			b.WriteString(" !")
		}
		if c.Background {
			b.WriteString(" &")
		}
		out = append(out, b.String())
	}
	for _, o := range line.Opaque {
		out = append(out, fmt.Sprintf("opaque %s %v", o.Reason, o.From))
	}
	return strings.Join(out, "; ")
}

func TestParse(t *testing.T) {
	for _, test := range []struct{ line, want string }{
		// Words.
		{`rm -fr '/a b' ~/c $HOME/d`, `rm -fr "/a b" /home/u/c /home/u/d`},
		{`rm ~:c ~root:c`, `rm /home/u:c /root:c`},
		{`rm "$u"/e $u/f "$u" $u`, `rm ?~/e ?~/f+ ?~ ?~+`},
		{`rm *.o a[bc] '*.o' \*.o a\[b]`, `rm <*.o> <a[bc]> *.o *.o a[b]`},
		{`rm {1..100000000} a`, `rm ?~+ a`},
		{`rm {a,b}{1..2} {a} {}`, `rm a1 a2 b1 b2 {a} {}`},
		{`"r"m -rf \/`, `rm -rf /`},
		{`$'\x72m' -rf $'/\u0065tc'`, `rm -rf /etc`},
		{"rm -rf \\\n/etc # not /usr", `rm -rf /etc`},
		{"rm\u00a0-rf /", "rm\u00a0-rf /"},
		{"ls\r\nrm x\r\n", `ls; rm x`},
		{`rm ${u:-/} ${u:?}`, `rm ?~+ ?~+`},
		{`/usr/bin/rm x; ./rm y`, `rm x; rm y`},
		{`"$d/bin/python" -c x`, `python -c x [python]`},

		// Variables that the line itself sets.
		{`x=rm; $x -rf /`, `rm -rf /`},
		{`x="rm -rf /"; $x`, `rm -rf /`},
		{`rm${IFS}-rf${IFS}/`, `rm -rf /`},
		{`a=(rm -rf /); "${a[@]}"`, `rm -rf /`},
		{`x=ls; test -n "$y" && x=rm; $x /`, `test -n ?~; - /; opaque command-name []`},
		{`x=ls; for i in 1; do x=rm; break; done; $x /`, `break; - /; opaque command-name []`},
		{`f() { x=rm; return; }; x=ls; f; $x /`, `return; - /; opaque command-name []`},
		{`for f in a b; do rm $f; done`, `rm a; rm b`},
		{`for f in *.o; do rm "$f"; done`, `rm <*.o>`},
		{`x=/etc/passwd; rm ${x%/*} ${x##*/} ${x:0:4}`, `rm /etc passwd /etc`},

		// Lists, pipelines, functions.
		{`a | b && c || d; e &`, `a; b |[0]; c; d; e &`},
		{`if a; then b; elif c; then d; else e; fi`, `a; b; c; d; e`},
		{`case $x in a) b;; *) c;; esac; while a; do b; done`, `b; c; a; b`},
		{`f() { rm -rf "$1"; }; f /etc; g() { rm x; }`, `rm -rf /etc`},
		{`rm() { :; }; rm x; bash -c 'rm y'`, `:; bash: :; bash: rm y`},
		{`if a; then rm() { :; }; fi; rm x`, `a; :; rm x`},
		{`:() { :|:& }; :`, `opaque recursive []; opaque recursive []`},
		{`alias ls='rm -rf /'; ls`, `alias "ls=rm -rf /"; rm -rf /; ls`},
		{`trap 'rm x' EXIT`, `trap "rm x" EXIT; trap: rm x`},
		{`((rm a); rm b)`, `rm a; rm b`},
		{`command_not_found_handle() { rm x; }; hash -p /bin/rm ls; ls y`, `rm x; hash -p /bin/rm ls; rm y; ls y`},
		{`hash -rp /bin/rm -- ls; ls y; BASH_ALIASES[a]='rm x'; a z; BASH_CMDS=([b]=/bin/rm); b c`, `hash -rp /bin/rm -- ls; rm y; ls y; rm x z; a z; rm c; b c`},

		// What is expanded once more than the line shows.
		{`(( a['$(rm x)'] )); [[ 'a[$(rm y)]' -eq 1 ]]; let 'a[$(rm z)]'`, `rm x; rm y; rm z`},
		{`x='a[$(rm x)]'; y=$((x)); x='a[b]'`, `rm x`},
		{`test -v 'a[$(rm x)]'; read 'b[$(rm y)]'; unset 'c[$(rm z)]'`, "rm x; test -v \"a[$(rm x)]\"; rm y; read \"b[$(rm y)]\"; rm z; unset \"c[$(rm z)]\""},
		{`awk '{ a[$(NF-1)]++ }' f; grep 'a[$(b)]' f`, `awk "{ a[$(NF-1)]++ }" f [awk]; grep a[$(b)] f`},
		{`f() { (( $1 )); }; f 'a[$(rm x)]'`, `rm x`},
		{`x='$(rm x)'; echo "${x@P}"; PS4='$(rm y)' bash -xc ls`, "rm x; echo ?~; rm y; bash: ls"},
		{`env PS4='$(rm x)' bash -x s`, `env: rm x; env: bash -x s`},
		{`echo 'rm x' > f; BASH_ENV=f bash -c ls; bash --rcfile f -i`, `echo "rm x" >f; bash -c ls; bash: rm x; bash: ls; bash --rcfile f -i; bash: rm x; bash --rcfile f -i`},
		{`env 'BASH_FUNC_ls%%=() { rm x; }' bash -c ls`, `env: BASH_FUNC_ls%%: rm x; env: bash: ls`},

		// Directories.
		{`cd /a && rm b; rm c`, `cd /a; rm b in ["/a"]; rm c in ["/a" "/home/u/project"]`},
		{`cd a || exit; rm b`, `cd a; exit; rm b in ["/home/u/project/a"]`},
		{`(cd /a && rm b); rm c`, `cd /a; rm b in ["/a"]; rm c`},
		{`cd "$u" && rm b`, `cd ?~; rm b in [""]`},
		{`pushd /a && popd && rm b`, `pushd /a; popd in ["/a"]; rm b`},
		{`git -C /a status; make -C sub x; env -C /b rm c`, `git -C /a status in ["/a"]; make -C sub x in ["/home/u/project/sub"]; env: rm c in ["/b"]`},
		{`set -e; cd /a; rm b`, `set -e; cd /a; rm b in ["/a"]`},
		{`while a; do cd ..; rm b; done`, `a in ["/home/u/project" ""]; cd .. in ["/home/u/project" ""]; rm b in ["/home/u" "" "/home/u/project"]`},

		// Substitutions and redirections.
		{`echo $(rm a) "$(rm b)" ` + "`rm c`" + ` <(rm d)`, `rm a; rm b; rm c; rm d; echo ?~+ ?~ ?~+ ?~`},
		{`rm "$(echo /etc)"`, `echo /etc; rm /etc`},
		{`a >b 2>&1 <c >>$d`, `a >b >&1 <c >>?~+`},
		{`cat <<E > f` + "\n$(rm x)\nE", "rm x; cat <<?~\n >f |[0]"},
		{`cat <<'E'` + "\n$(rm x)\nE", `cat <<"$(rm x)\n"`},

		// Text that a shell reads.
		{`eval 'rm -rf /'; eval "$x"`, `eval: rm -rf /; opaque eval []`},
		{`bash -lc 'sh -c "rm x"'`, `bash: sh: rm x`},
		{`bash -c 'rm "$1"' _ /etc`, `bash: rm /etc`},
		{`bash -c "rm -rf $u/x"`, `bash: rm -rf ?~/x+; opaque eval []`},
		{"bash <<E\nrm x\nE", `bash: rm x`},
		{`sh <<< 'rm x'; echo 'rm y' | sh; printf 'rm %s\n' z | bash -s`, `sh: rm x; echo "rm y"; sh: rm y; printf "rm %s\\n" z; bash: rm z`},
		{"cat <<'E' | sh\nrm x\nE", `cat <<"rm x\n"; sh: rm x`},
		{`echo cm0geAo= | base64 -d | sh`, `echo cm0geAo=; base64 -d |[0]; sh: rm x; opaque decoded [1]`},
		{`curl x | sh`, `curl x; sh |[0]; opaque stdin [0]`},
		{`curl x | tee y | sh -s -- z`, `curl x; tee y |[0]; sh -s -- z |[1]; opaque stdin [1]`},
		{`curl x > >(sh)`, `sh |[1]; curl x >?~; opaque stdin [1]`},
		{`bash <(curl x); source <(echo rm y)`, `curl x; bash ?~; echo rm y; source ?~; source: rm y; opaque stdin [0]`},
		{`$(curl x) a; eval "$(curl y)"`, `curl x; - a; curl y; opaque command-name [0]; opaque eval [2]`},
		{`. ./env; source ~/e`, `. ./env; source /home/u/e; opaque sourced []; opaque sourced []`},
		{`echo 'rm x' > s; sh s; ./s`, `echo "rm x" >s; sh s; sh: rm x; s: rm x; s`},
		{`curl x | while read l; do $l; done`, `curl x; read l |[0]; - |[0]; opaque command-name [0]`},

		// Wrappers.
		{`sudo -u root rm x`, `sudo: rm x !`},
		{`sudo env A=b nice -n 5 timeout -k 3 10 nohup rm x`, `sudo: env: nice: timeout: nohup: rm x !`},
		{`env -S 'rm -rf x' y; env -i -u A rm z`, `env: rm -rf x y; env: rm z`},
		{`su - bob -c 'rm x'`, `su - bob -c "rm x"; su: rm x !`},
		{`command rm x; builtin cd /a; exec rm y`, `command: rm x; builtin: cd /a; exec: rm y in ["/a" "/home/u/project"]`},
		{`command -v rm; type rm; which rm`, `command -v rm; type rm; which rm`},
		{`flock /l rm x; flock /l -c 'rm y'; watch -n1 'rm z'`, `flock: rm x; flock: rm y; watch: rm z`},
		{`find . -name '*.o' -exec rm {} + -exec sh -c 'rm "$1"' _ {} \;`, `find . -name *.o -exec rm {} + -exec sh -c "rm \"$1\"" _ {} ;; find: rm <./**/*.o>; find: sh: rm <./**/*.o>`},
		{`find /a -type f -print0 | xargs -0 rm -f`, `find /a -type f -print0; xargs: rm -f </a/**> |[0]`},
		{`echo a b | xargs rm; ls | xargs -I{} rm x/{}`, `echo a b; xargs: rm a b |[0]; ls; xargs: rm ?x/~ |[2]`},
		{`ls | xargs -I{} sh -c 'rm {}'`, `ls; xargs: sh: rm ?~+ |[0]; opaque eval [0]`},
		{`parallel rm {} ::: a b`, `parallel: rm a; parallel: rm b`},
		{`busybox rm x; npx rimraf y; strace -f -o l rm z`, `busybox: rm x; npx: rimraf y; strace: rm z`},
		{`ssh -p 1 h 'rm x'; docker exec -it c rm y; kubectl exec p -c d -- rm z`,
			`ssh -p 1 h "rm x"; ssh: (ssh h) rm x in [""]; docker exec -it c rm y; docker exec: (docker exec c) rm y in [""]; kubectl exec p -c d -- rm z; kubectl exec: (kubectl exec p) rm z in [""]`},
		{`git -C a submodule foreach b; env GIT_EDITOR=c git d; git clone 'ext::e f% g'; git-h i`, `git submodule foreach: b in [""]; env: GIT_EDITOR: c; env: git d; git: e "f g"; git clone "ext::e f% g"; git h i`},
		// env is no shell.
		{`env -S 'cat <(echo a); rm b'; env -S "git config alias.x '!rm y'"`, `env: cat <(echo a); rm b; env: git config alias.x "!rm y"`},
		{`env -S 'rm -rf "a b"c \_x\_# y'; env -S 'rm a\c b'; env -S 'rm ${HOME}/x "\_\$" '"'it\'s'"`, `env: rm -rf "a bc" x; env: rm a; env: rm ?~/x " $" it's`},
		{`env -S 'rm "a'`, `env: -; opaque command-name []`}, {`env -S 'rm $(b)'`, `env: -; opaque command-name []`}, {`env -S 'rm \x'`, `env: -; opaque command-name []`},
		{`env -S '-i -u A rm x' y; env -S "-S 'rm z'"; env -S '-iu A A=b rm w'`, `env: rm x y; env: rm z; env: rm w`},
		{`env ` + strings.Repeat("-S '' ", 5) + `rm x; env ` + strings.Repeat("-S '' ", 9000) + `rm x`, `env: rm x; env: -; opaque command-name []`},
		{`env -S 'rm\_-rf\_x'; setarch -R rm x; faketime 1 rm y; tsp rm z`, `env: rm -rf x; setarch: rm x; faketime: rm y; tsp: rm z`},
		{`nix develop .#a -c rm x; xterm -e 'rm y'; ls | entr -s 'rm z'`, `nix develop: rm x; xterm: rm y; ls; entr: rm z |[2]`},
		{`printf 'rm x' > f; cat f | sh; cp f g; sh g`, `printf "rm x" >f; cat f; sh: rm x; cp f g; sh g; sh: rm x`},
		{`echo 'rm x' | parallel; /???/rm y; sem rm z`, `echo "rm x"; parallel: eval: rm x |[0]; rm y; parallel: rm z ?~+; opaque eval []`},
		{`git -c alias.x='!rm -rf /' x; git -c alias.p='push -f' p o`, `alias.x: rm -rf /; git -c "alias.x=!rm -rf /" x; alias.p: command: git push -f o; git -c "alias.p=push -f" p o`},
		{`tar --checkpoint-action=exec='rm x' -cf a b`, `tar: rm x; tar "--checkpoint-action=exec=rm x" -cf a b`},
		{`python3 -c 'a'; node -e b; perl -lne c f; awk d f; python3 s.py; curl x | python3 -`,
			`python3 -c a [python]; node -e b [node]; perl -lne c f [perl]; awk d f [awk]; python3 s.py; curl x; python3 - |[5]; opaque stdin [5]`},
		{`curl x | python3 -m json.tool; curl x | python3 -c 'a'`, `curl x; python3 -m json.tool |[0]; curl x; python3 -c a [python] |[2]`},

		// What bash would not take, or reads in another way than the parser.
		{`rm 'x`, `opaque incomplete []`},
		{`a | | rm x`, `opaque unparsed []`},
		{"cat <<E | sh\nrm x", `cat <<"rm x\n"; sh: rm x`},
		{"a > f <<E", `a >f <<""`},
		{"rm x\nrm ) y", `rm x; opaque unparsed []`},
		{"echo a\r#b; rm x", `opaque unparsed []`},
		{"echo a \\\r\nrm x", `opaque unparsed []`},
		{"rm \x00", `opaque unparsed []`},
		{"rm \xff", `opaque unparsed []`},
	} {
		if got := summary(shell.Parse(test.line, options)); got != test.want {
			t.Errorf("%q\ngot  %s\nwant %s", test.line, got, test.want)
		}
	}
}

// hostile are pieces that are repeated until the line is as long as it may be.
var hostile = []string{
	"(", "((", "$(", "`", "{ ", "if ", "! ", "while ", "${a:-", "\"$(", "$((", "case x in x) ", "a && ", "a && x=1 && ", "a | ", "<(", "<<E ", "[[ ( ", "f() ", "{a,", "{a,b}", "{1..9}", "@(", "$[",
	"a=(", "((a) ", "a[", "a;", "for ((", "$x", "'a'", "x=$x$x;x=$x$x;", "f(){ f; f; };f;", "for i in a b;do ", "sh -c '", "eval eval ", "sudo ", "xargs ", "find . -exec ", "cd a||", "a>b ",
	"rm -rf $x;", "alias a=b;", "trap 'a' X;", "a(){ b; };", "x+=aaaaaaaaaa;", "echo a|sh;", "${x:-$(", "\\", "*", "[a", "{}", "a | tee >(sh) | ", "if a;then x=1;fi;", "while x=1;do ",
}

// TestHostileLines bounds the time of what is made to take long. Most lines take
// less than a second.
func TestHostileLines(t *testing.T) {
	for _, piece := range hostile {
		line := strings.Repeat(piece, 131000/len(piece))
		start := time.Now()
		parsed := shell.Parse(line, options)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q, repeated, took %v", piece, took)
		}
		if len(parsed.Commands) > 2000 {
			t.Errorf("%q, repeated, is %d commands", piece, len(parsed.Commands))
		}
	}
	for _, line := range []string{
		strings.Repeat("a ", 100000),
		strings.Repeat("f(){ f; };", 200) + "f",
		"x=aaaaaaaaaa; " + strings.Repeat("x=$x$x;", 60) + " $x",
		strings.Repeat("$(", 500) + "rm" + strings.Repeat(")", 500),
	} {
		if parsed := shell.Parse(line, options); len(parsed.Opaque) == 0 {
			t.Errorf("%.40q: want something opaque, got %d commands", line, len(parsed.Commands))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range bashLines {
		f.Add(line)
	}
	for _, piece := range hostile {
		f.Add(strings.Repeat(piece, 30))
	}
	f.Add("find / -name $'\\x00' -exec sh -c \"rm {}\" + | xargs -I% ssh h \"rm %\" <<E >>f 2>&1\n$x\nE")
	f.Fuzz(func(t *testing.T, line string) {
		parsed := shell.Parse(line, options)
		for i, c := range parsed.Commands {
			if c.Pos < 0 || c.End < c.Pos || c.End > len(line) {
				t.Errorf("command %d stands at %d to %d of %d", i, c.Pos, c.End, len(line))
			}
			for _, n := range c.Stdin {
				if n < 0 || n >= len(parsed.Commands) {
					t.Errorf("command %d reads from %d of %d", i, n, len(parsed.Commands))
				}
			}
			for _, w := range append(c.Args, c.Name) {
				checkWord(t, w, len(parsed.Commands))
			}
		}
		for _, o := range parsed.Opaque {
			if o.Pos < 0 || o.Pos > len(line) || o.Command >= len(parsed.Commands) {
				t.Errorf("opaque %+v in a line of %d bytes with %d commands", o, len(line), len(parsed.Commands))
			}
		}
	})
}

func checkWord(t *testing.T, w shell.Word, commands int) {
	for _, s := range []string{w.Value, w.Prefix, w.Suffix, w.Text} {
		if !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r >= 0xF0000 && r <= 0xFFFFD }) {
			t.Errorf("word %+q is no text", s)
		}
	}
	for _, n := range w.From {
		if n < 0 || n >= commands {
			t.Errorf("word %q is from command %d of %d", w.Text, n, commands)
		}
	}
}

// One program with words that stand in the line, and nothing else.
func TestSimple(t *testing.T) {
	for _, line := range []string{
		"git push", "git push origin main", "npm run build 2>&1", "make -j 4 test  # all of it", "'git' \"push\"", "git commit -m 'a; b && c | d > e'",
		"ls", "go test ./...", "git \\\n push", "echo 'x*' \"y\"", "npm test >&2",
	} {
		if shell.Parse(line, shell.Options{Dir: "/w", Home: "/h"}).Simple() == nil {
			t.Errorf("%q is not simple", line)
		}
	}
	for _, line := range []string{
		"", "git push; ls", "git push && ls", "git push || ls", "git push | cat", "git push &", "! git push", "time git push", "(git push)", "{ git push; }", "git push\nls",
		"git $(echo push)", "git `echo push`", "git push $X", "git push ${X}", "git push $HOME", "git push \"$HOME\"", "git push $((1+1))", "git push $'a'", "git push $\"a\"", "git push <(ls)", "git push *", "git push a?", "git push [a]",
		"git push > out", "git push >> out", "git push < in", "git push <<< x", "git push <<E\nx\nE", "git push &> out", "git push >&out", "git push >&3", "git push 2>&-", "git push >| out", "git push <> x",
		"A=1", "A=1 git push", "A=1; git push", "f() { ls; }", "if true; then git push; fi", "for i in 1; do git push; done", "[[ -f x ]]", "((1))", "export A=b", "let x=1",
		"./git push", "/usr/bin/git push", "~/git push", "git-push", "=git push", "git.exe push", "$GIT push", "'' push",
		"sudo git push", "env git push", "timeout 5 git push", "xargs git push", "sh -c 'git push'", "bash x.sh", "eval git push", "command git push", "npx git", "npm exec x", "uv run x", "nohup git push",
		"ssh host git push", "docker exec c git push", "docker run x ls", "python x.py", "python -c 'x'", "node x.js", "awk 1", "perl -e 1", "source x", ". x", "exec git push",
		"git -c core.pager=x push", "git push --receive-pack='sh -c x'", "go test -exec 'sh -c x'", "make --eval 'x: ; ls' x", "make X='$(shell ls)'", "git push 'unclosed", "git push )", "find . -exec ls {} +",
	} {
		if c := shell.Parse(line, shell.Options{Dir: "/w", Home: "/h"}).Simple(); c != nil {
			t.Errorf("%q is simple: %+v", line, c)
		}
	}
	for _, o := range []shell.Options{{}, {Dir: "/a/l/../b", Follow: func(name string) (string, bool) { return "/c", true }}} {
		if shell.Parse("git push", o).Simple() != nil {
			t.Errorf("simple in a folder that is not known: %+v", o)
		}
	}
}

// The words of a simple command are all that there is of it: quoted one by one, they are the same command.
func FuzzSimple(f *testing.F) {
	for _, seed := range []string{"git push 2>&1", "git push; ls", "git 'a b' \"c\" \\d", "a{b,c} ~/x $X", "git push # x", "x=1 y", "$(a) b", "a\\\nb", "a >b", "npx a", "make X='$(shell ls)'"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := shell.Options{Dir: "/w", Home: "/h"}
		c := shell.Parse(text, o).Simple()
		if c == nil {
			return
		}
		quoted, words := shell.Quote(c.Program), []string{c.Program}
		for _, w := range c.Args {
			quoted += " " + shell.Quote(w.Value)
			words = append(words, w.Value)
		}
		again := shell.Parse(quoted, o).Simple()
		if again == nil {
			t.Fatalf("%q is simple, and %q is not", text, quoted)
		}
		got := []string{again.Program}
		for _, w := range again.Args {
			got = append(got, w.Value)
		}
		if !slices.Equal(got, words) {
			t.Errorf("%q has the words %q, and %q has %q", text, words, quoted, got)
		}
	})
}
