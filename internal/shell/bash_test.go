package shell_test

import (
	"bytes"
	"context"
	"flag"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

// bashLines are lines whose quoting, comments or structure a parser can get
// wrong. The program mark is all that they can run.
var bashLines = []string{
	`mark a\ b "c d" 'e "f"' "g 'h'"`,
	`mark $'\x61\142\u0063\n' $'a\'b' $"x"`,
	`mark "a\$b\"c\\d\e" 'a\b'`,
	"mark a\\\nb \\\n c",
	"mark a # comment; mark b\nmark c#d",
	"mark {a,b}{c,d} {1..3} {c..a} {01..3} a{b {a} {,x} {a,{b,c}}",
	`x=mark; $x a; "$x" b; ${x} c; y="mark d e"; $y; IFS=,; z=mark,f; $z`,
	`mark ${u:-d} ${u-d e} ${u:+f}; x=; mark "${x:-g}"`,
	`x=abcdef; mark ${x:1:2} ${x: -2} ${#x} ${x#ab} ${x%ef} ${x/cd/X} ${x^^} "${x:0}"`,
	`a=(mark x "y z"); "${a[@]}"; mark ${#a[@]} ${a[1]}`,
	`set -- p "q r"; mark "$@" $# "$2" $1`,
	"cat <<E | $x\nmark h\nE\nmark i",
	"x=$(mark in; mark in2); mark out; `mark \\`mark deep\\``",
	`(mark sub) && { mark blk; } || mark never; ! mark neg`,
	`if mark c; then mark t; else mark e; fi; case a in a) mark ca;; *) mark cb;; esac`,
	`for i in a "b c" {d,e}; do mark "$i"; done; while mark w; do break; done`,
	`f() { mark f "$1" $#; }; f a b; function g { mark g; }; g`,
	`mark a;mark b&mark c|mark d;wait`,
	`((mark a); mark b); ( (mark c) )`,
	`eval 'mark a; mark "b c"'; eval mark '$x' d`,
	"mark a \u00a0 b\u2003c",
	"mark \"unicode: \u202e x\"",
	`command mark a; builtin command mark b; exec mark c`,
	`trap 'mark bye' EXIT; mark hi`,
	`alias m=mark; m x`,
	"shopt -s expand_aliases; alias m='mark al'; \nm x",
	`mark() { command mark fn "$@"; }; mark x; (unset -f mark; mark y)`,
	`x=a; x+=b; mark $x; x=c mark $x; mark $x`,
	`[[ a == a ]] && mark t; [ a = b ] || mark u; ((1+1)) && mark v`,
	`mark ~root "~" a~ ~+ `,
	`mark @(a) !(b) +(c)`,
	`shopt -s extglob
mark @(a) !(b)`,
	`time mark a; coproc mark b; wait`,
	`mark <<<x a; mark 2>&1 b >/dev/null; >/dev/null mark c; mark d <<E
text $(mark inhere)
E`,
	"mark <<'E' a\n$(mark no)\nE\n",
	"mark <<-E a\n\t$(mark yes)\n\tE\nmark b",
	`bash -c 'mark "$0" "$@"' a b; bash -ec "mark c"; bash <<< 'mark d'; echo mark e | bash; bash -s f <<< 'mark $1'`,
	`printf 'mark %s\n' a b | bash; printf -v x '%s' mark; $x c`,
	`declare x=mark; $x a; export y=mark; $y b; readonly z=mark; $z c; f() { local x=other; mark $x; }; f; mark $x`,
	`let x=1+1; mark $x; echo $((x+1)) > /dev/null; mark $((1+2))`,
	`select x in a; do mark $x; break; done <<< 1`,
	`x='a*b'; mark "$x" '*'; mark [ab] a[b`,
	`mark a=b --c="d e" -f$'g'`,
	`mark "$(printf '%s' 'x y')" $(printf 'x y') "$(echo '$(mark no)')"`,
	"mark 'a\nb' \"c\nd\"",
	"if true\nthen mark a\nelif mark b\nthen :\nfi",
	"mark a |\nmark b ||\n\n mark c &&\n mark d",
	`x=mark; unset x; $x a; mark b`,
	`x=1; { x=mark; } ; $x a; ( x=other; ); $x b`,
	`false && x=mark; ${x:-mark} c`,
	`mark ${x[@]} "${x[@]}" "$*" $*; mark end`,
	`bash -c 'bash -c "mark \"a b\" '"'"'c'"'"'"'`,
	`env -i PATH="$PATH" bash -c 'mark x'; env A=b mark y; env -S 'mark z w'; nice mark n; timeout 5 mark t; nohup mark h`,
	`env -S 'mark "a b"c d\_e "f\_g" # h'; env -S 'mark i\tj k\c l'; env -S "mark 'm n' \"o\$p\" $(printf q)"; env -S 'mark <(r) s; $t'`,
	`echo a b | xargs mark; echo a b | xargs -n1 mark c; printf 'a b\nc' | xargs -I{} mark x{}y`,
	`find . -maxdepth 0 -exec mark {} \; -exec bash -c 'mark "$0"' {} +`,
	`echo 'mark s "$1"' > s.sh; bash s.sh a; . ./s.sh b; chmod +x s.sh; ./s.sh c; source s.sh`,
	`PATH=$PATH:. ; exec 3>&1; mark x >&3`,
	`mark a & mark b & wait; { mark c & } ; wait`,
	`x=$'mark\tq'; $x; mark "${x}"`,
	`mark "a"'b'c\d$'e'`,
	"mark `echo \"a b\"` \"`echo \\\"c\\\"`\"",
	"mark a\\\\\\\nb",
}

// TestAgainstBash runs lines, and whatever bash runs has to be in what Parse
// says, with the same words, or Parse has to say that it does not know.
func TestAgainstBash(t *testing.T) {
	b := newBash(t)
	for _, line := range bashLines {
		b.check(t, line)
	}
}

var randomLines = flag.Uint64("lines", 400, "how many lines TestRandomLinesAgainstBash makes at random")

// TestRandomLinesAgainstBash does the same with lines at random.
func TestRandomLinesAgainstBash(t *testing.T) {
	b := newBash(t)
	pieces := []string{
		"mark", "mark", "mark", " ", " ", " ", " ", "a", "b", "$x", "x=mark ", "x=a;", "'", "\"", "\\", ";", "&&", "||", "|", "&", "\n", "(", ")", "{ ", ";}", "$(", "`", "#", "$'", "\\'",
		"if ", "then ", "fi", "do ", "done", "for i in ", "while ", "case a in ", "a) ", ";;", "esac", "${x", "}", ":-", "[", "]", "{a,b}", "<<E", "\nE\n", "<<<", "((", "))", "=", "!", "~", "*", "f() ",
		"f", "eval ", "bash -c ", "$1", "\"$@\"", "echo ", "IFS=a", "set -- a b", "break", "command ", "${x%", "#", "\t", "$", "function f ", "[[ ", " ]]", "unset x", "false", "true",
	}
	for seed := range *randomLines {
		rnd := rand.New(rand.NewPCG(seed, 17))
		var line strings.Builder
		for range 2 + rnd.IntN(14) {
			line.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		b.check(t, line.String())
	}
}

type bash struct{ path, dir, log string }

func newBash(t *testing.T) *bash {
	path, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("no bash")
	}
	b := &bash{path: path, dir: t.TempDir()}
	b.log = filepath.Join(b.dir, "log")
	bin := filepath.Join(b.dir, "bin")
	if err := os.Mkdir(bin, 0o700); err != nil {
		t.Fatal(err)
	}
	// The end of a call is marked, since two can run at the same time.
	script := "#!" + path + "\nprintf -v x '%s\\001' \"$@\"\nprintf '%s\\002' \"$x\" >> '" + b.log + "'\n"
	if err := os.WriteFile(filepath.Join(bin, "mark"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"bash", "env", "nice", "timeout", "nohup", "xargs", "find", "cat", "chmod"} {
		if path, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

// run returns the words of each call of mark when bash runs line.
func (b *bash) run(t *testing.T, line string) [][]string {
	t.Helper()
	os.Remove(b.log)
	work := filepath.Join(b.dir, "work")
	os.RemoveAll(work)
	if err := os.Mkdir(work, 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.path, "--norc", "--noprofile", "-c", line)
	cmd.Dir = work
	cmd.Env = []string{"PATH=" + filepath.Join(b.dir, "bin"), "HOME=/root", "LC_ALL=C.UTF-8"}
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr = &printed, &printed // Run waits for all that could print: also for what runs in the background
	cmd.WaitDelay = time.Second
	cmd.Run() // a line may fail
	data, _ := os.ReadFile(b.log)
	var calls [][]string
	for call := range strings.SplitSeq(strings.TrimSuffix(string(data), "\x02"), "\x02") {
		if call == "" && len(data) == 0 {
			continue
		}
		words := strings.Split(strings.TrimSuffix(call, "\x01"), "\x01")
		if call == "\x01" || call == "" {
			words = nil // none, or one that is empty: printf makes no difference
		}
		calls = append(calls, words)
	}
	return calls
}

func (b *bash) check(t *testing.T, line string) {
	t.Helper()
	work := filepath.Join(b.dir, "work")
	parsed := shell.Parse(line, shell.Options{Dir: work, Home: "/root"})
	for _, words := range b.run(t, line) {
		if !explained(parsed, words) {
			var got []string
			for _, c := range parsed.Commands {
				got = append(got, c.Program+" "+texts(c.Args))
			}
			t.Errorf("line %q\nbash ran mark %q\ngot %q\nopaque %v", line, words, got, parsed.Opaque)
			return
		}
	}
}

func texts(words []shell.Word) string {
	var out []string
	for _, w := range words {
		out = append(out, w.Value+w.Prefix)
	}
	return strings.Join(out, "|")
}

// explained reports whether what ran is listed, or something is opaque.
func explained(line *shell.Line, words []string) bool {
	for _, c := range line.Commands {
		if c.Program == "mark" && fits(c.Args, words) || c.Program == "" && len(c.Args) > 0 {
			return true
		}
	}
	return len(line.Opaque) > 0
}

// fits reports whether words can be what args say.
func fits(args []shell.Word, words []string) bool {
	if len(args) == 0 {
		return len(words) == 0
	}
	w := args[0]
	if w.Many || w.Kind == shell.Pattern {
		for n := range len(words) + 1 {
			if fits(args[1:], words[n:]) {
				return true
			}
		}
		return false
	}
	if len(words) == 0 {
		v, known := w.Literal()
		return known && v == "" && fits(args[1:], words)
	}
	if v, known := w.Literal(); known && v != words[0] || !strings.HasPrefix(words[0], w.Prefix) {
		return false
	}
	return fits(args[1:], words[1:])
}
