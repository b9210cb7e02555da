package inbox

import (
	"strings"
	"testing"
)

// All of a question is printed before its passphrase is asked for. One that is too long for that has to be
// shown first, and named by what was shown.
func TestShownBeforeAPassphrase(t *testing.T) {
	c := newConsole("")
	a := &app{c.App}
	short := openQuestions()[0]
	short.Facts = []string{"sends"}
	if err := a.aboutToApprove(short, false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"A-2: create_issue on github", "sends: sends something", `"bug",`, "1.50", "forwards exactly this call"} {
		if !strings.Contains(c.Err.String(), want) {
			t.Errorf("lacks %q:\n%s", want, c.Err.String())
		}
	}
	if n := strings.Count(strings.ReplaceAll(strings.ReplaceAll(c.Err.String(), "\n", ""), "    │ ", ""), "lorem ipsum"); n != 40 {
		t.Errorf("%d of 40 words are shown:\n%s", n, c.Err.String())
	}
	c.Clear()
	long := openQuestions()[1]
	long.Arguments = []byte(`{"arguments":{"content":"` + strings.Repeat("many words ", 2000) + `"}}`)
	if err := a.aboutToApprove(long, false); err == nil || !strings.Contains(err.Error(), "too many to read before a passphrase") || c.Err.Len() > 0 {
		t.Errorf("a question that is too long: %v, %d bytes printed", err, c.Err.Len())
	}
	if err := a.aboutToApprove(long, true); err != nil || !strings.Contains(c.Err.String(), "more lines") {
		t.Errorf("one that was shown before: %v\n%s", err, c.Err.String())
	}
}
