package status

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/audit"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// The numbers of the report, of status and of the list are those of what is exported.
func TestNumbersAgree(t *testing.T) {
	f := consoletest.Start(t)
	f.Status = consoletest.Healthy()
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		f.Mu.Lock()
		f.Records = consoletest.Chained(consoletest.DrawLog(r))
		f.Mu.Unlock()
		c := consoletest.New(f.Socket, Command, audit.Command)
		run := func(args ...string) string {
			if code := c.Run(t, args...); code != 0 {
				r.Fatalf("%q: exit %d: %s", args, code, c.Err.String())
			}
			return c.Out.String()
		}
		page := filepath.Join(dir, "page.html")
		_ = os.Remove(page)
		list := run("audit", "--limit", "0")
		run("audit", "report", "-o", page)
		html, err := os.ReadFile(page)
		if err != nil {
			r.Fatal(err)
		}
		forwarded, held, denied, parked := consoletest.Exported(r, run("audit", "export", "--format", "jsonl"))
		for _, want := range []string{
			fmt.Sprintf("<b>%d</b>calls<", forwarded+held+denied), fmt.Sprintf("<b>%d</b>forwarded<", forwarded), fmt.Sprintf("<b>%d</b>held, ", held),
			fmt.Sprintf("<b>%d</b>denied<", denied), fmt.Sprintf("<b>%d</b>told to repeat", parked),
		} {
			if !strings.Contains(string(html), want) {
				r.Errorf("the report does not say %s", want)
			}
		}
		sentence := fmt.Sprintf("%d forwarded, %d held, %d denied", forwarded, held, denied)
		if !strings.Contains(strings.Join(strings.Fields(list), " "), sentence) {
			r.Errorf("the list does not say %s:\n%s", sentence, list)
		}
		if shown := run("status"); !strings.Contains(shown, sentence) {
			r.Errorf("status does not say %s:\n%s", sentence, shown)
		}
	})
}

// A console draws no blocks.
func TestSparkline(t *testing.T) {
	for term, want := range map[string]string{"xterm": ".▁▄█", "linux": "._-#"} {
		if got := string(sparkline([]uint64{0, 1, 4, 8}, term)); got != want {
			t.Errorf("TERM=%s: %s, want %s", term, got, want)
		}
	}
}
