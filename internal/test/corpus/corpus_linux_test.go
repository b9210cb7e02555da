// Package corpus judges other people's corpora of commands, which are not part of the repository,
// under the built-in default configuration. It is a campaign that is run by hand:
//
//	make corpus CORPUS=dir HALF=even
//
// The folder has what was fetched of any of the corpora that read_test.go describes. For each of
// their classes a table says how many dangerous cases were stopped, asked about and missed, and how
// many harmless ones were asked about. The cases behind the last two are listed in a file.
//
// The cases are judged by the gate of a [rehearse.Stage], each in a session of its own, in a small
// file system that the campaign makes (see world_test.go) and enters by chroot. So the results do not
// depend on the machine, and nothing of it is looked at. Nothing is executed.
package corpus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"

	"github.com/thoughtgate/thoughtgated/internal/test/tempdir"
)

var (
	corpora = flag.String("corpus", "", "the folder with the corpora; the test is skipped without it")
	half    = flag.String("half", "even", "which half of the cases is judged: even, to tune by, or odd, which is held out")
	lists   = flag.String("lists", filepath.Join(os.TempDir(), "thoughtgate-corpus.txt"), "the file for what was missed and what was asked about for nothing")
)

// rootVariable names the environment variable that has the process enter a root and judge the cases.
const rootVariable = "THOUGHTGATE_CORPUS_ROOT"

func TestMain(m *testing.M) {
	flag.Parse()
	root := os.Getenv(rootVariable)
	if root == "" {
		os.Exit(m.Run())
	}
	if err := judgeIn(root); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestCorpora makes the world and starts this program again in it.
func TestCorpora(t *testing.T) {
	if *corpora == "" {
		t.Skip("needs -args -corpus=DIR: a folder with corpora, which are not part of the repository")
	}
	if *half != "even" && *half != "odd" {
		t.Fatalf("-half is even or odd, not %q", *half)
	}
	root := tempdir.New(t, "", "corpus")
	makeWorld(t, root)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), rootVariable+"="+root)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if os.Getuid() != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
		}
	}
	if err := cmd.Run(); err != nil {
		t.Fatalf("judge the cases: %v", err)
	}
	t.Logf("the lists are in %s", *lists)
}

// judgeIn reads the cases, enters the root and judges them.
func judgeIn(root string) error {
	cases, err := readAll(*corpora)
	if err != nil {
		return err
	}
	cases = slices.DeleteFunc(cases, func(c example) bool { return isEven(c.text) != (*half == "even") })
	out, err := os.OpenFile(*lists, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := syscall.Chroot(root); err != nil {
		return fmt.Errorf("enter the file system that was made: %w", err)
	}
	if err := os.Chdir(project); err != nil {
		return err
	}
	results, err := judge(context.Background(), cases)
	if err != nil {
		return err
	}
	for _, r := range results {
		if what := r.wrong(); what != "" {
			fmt.Fprintf(out, "%s\t%s/%s\t%s\t%s\n", what, r.corpus, r.class, short(r.text), r.why)
		}
	}
	report(results)
	return out.Close()
}

// isEven reports whether a case is one to tune by: the first digit of its hash is even.
func isEven(text string) bool {
	sum := sha256.Sum256([]byte(text))
	return strings.Contains("02468ace", hex.EncodeToString(sum[:1])[:1])
}

// short returns a text on one line, without what is long.
func short(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	if len(text) > 400 {
		text = strings.ToValidUTF8(text[:400], "") + "…"
	}
	return text
}

// row is a line of the table.
type row struct{ dangerous, stopped, asked, missed, harmless, harmlessAsked int }

func (r *row) add(s *result) {
	switch {
	case s.dangerous:
		r.dangerous++
		switch s.verdict {
		case "deny":
			r.stopped++
		case "ask":
			r.asked++
		default:
			r.missed++
		}
	default:
		if r.harmless++; s.verdict != "forward" {
			r.harmlessAsked++
		}
	}
}

// report prints the table, and how many cases were left out for which reason, and how many of them
// would be stopped or asked about.
func report(results []result) {
	rows, left := map[string]*row{}, map[string][2]int{}
	count := func(name string, r *result) {
		if rows[name] == nil {
			rows[name] = &row{}
		}
		rows[name].add(r)
	}
	for i := range results {
		r := &results[i]
		if r.leftOut != "" {
			n := left[r.corpus+": "+r.leftOut]
			if n[0]++; r.verdict != "forward" {
				n[1]++
			}
			left[r.corpus+": "+r.leftOut] = n
			continue
		}
		count(r.corpus+"/"+r.class, r)
		count(r.corpus, r)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s half\tdangerous\tstopped\tasked\tmissed\t\tharmless\tasked\t\n", *half)
	for _, name := range sorted(rows) {
		r := rows[name]
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%d\t%d\t%s\n", name, r.dangerous, r.stopped, r.asked, r.missed, percent(r.dangerous-r.missed, r.dangerous), r.harmless, r.harmlessAsked, percent(r.harmlessAsked, r.harmless))
	}
	w.Flush()
	fmt.Printf("\nleft out, and asked about all the same\n")
	for _, reason := range sorted(left) {
		fmt.Printf("%5d %5d  %s\n", left[reason][0], left[reason][1], reason)
	}
}

func sorted[V any](m map[string]V) []string {
	var keys []string
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func percent(n, of int) string {
	if of == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(of))
}
