package audit

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A record is one write and allocates almost nothing, since every call pays for it. There
// are 2 allocations today; the race detector makes pools drop items on purpose.
func TestRecordIsCheap(t *testing.T) {
	l := open(t, t.TempDir(), Options{Interval: time.Hour, Redact: asTheyAre})
	defer closeLog(t, l)
	r := usual()
	if n := testing.AllocsPerRun(1000, func() {
		if err := l.Record(t.Context(), r, usualValues, nil); err != nil {
			t.Fatal(err)
		}
	}); n > 8 {
		t.Errorf("%v allocations a record", n)
	}

	const records = 2000
	before, ok := writes(t)
	if !ok {
		t.Skip("this system does not say how often a process writes")
	}
	for range records {
		if err := l.Record(t.Context(), r, usualValues, nil); err != nil {
			t.Fatal(err)
		}
	}
	after, _ := writes(t)
	if n := after - before; n < records/2 || n > records*3/2 {
		t.Errorf("%d writes for %d records", n, records)
	}
}

// writes returns the number of write system calls of this process.
func writes(t *testing.T) (n int, ok bool) {
	t.Helper()
	content, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0, false
	}
	var rchar, wchar, syscr int
	if _, err := fmt.Sscanf(string(content), "rchar: %d\nwchar: %d\nsyscr: %d\nsyscw: %d", &rchar, &wchar, &syscr, &n); err != nil {
		t.Fatalf("%v: %s", err, content)
	}
	return n, true
}

// The ids of messages are all different, and must not displace names from the cache of
// harmless texts.
func TestIDsAreNotRemembered(t *testing.T) {
	looked := map[string]int{}
	l := open(t, t.TempDir(), Options{Redact: func(v []byte, _ []string, _ func([]byte) string) []byte {
		looked[string(v)]++
		return v
	}})
	defer closeLog(t, l)
	const records = 50
	for i := range records {
		r := usual()
		r.MessageID = fmt.Sprint(100_000 + i)
		if err := l.Record(t.Context(), r, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := looked[`"read_file"`]; n != 1 {
		t.Errorf("the name of a tool was looked at %d times", n)
	}
	if n := looked[`"100007"`]; n != 1 {
		t.Errorf("an id was looked at %d times", n)
	}
	if len(l.harmless.texts) > 3 {
		t.Errorf("%d texts are remembered", len(l.harmless.texts))
	}
}
