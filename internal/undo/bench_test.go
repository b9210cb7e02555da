package undo

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// tenThousand has 10,000 files of 4 KB, in 100 folders.
func tenThousand(b *testing.B) *world {
	w := newWorld(b, Limits{Count: 2})
	for n := range 10_000 {
		w.write(fmt.Sprintf("d%d/f%d", n%100, n), fmt.Sprint(n, strings.Repeat("x", 4000)))
	}
	return w
}

func BenchmarkSnapshot(b *testing.B) {
	w := tenThousand(b)
	for b.Loop() {
		w.snapshot(".")
	}
}

func BenchmarkCheck(b *testing.B) {
	w := tenThousand(b)
	for b.Loop() {
		if _, err := w.store.Check(context.Background(), w.root, "."); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRestore(b *testing.B) {
	w := tenThousand(b)
	info := w.snapshot(".")
	for b.Loop() {
		b.StopTimer()
		w.removeAll()
		b.StartTimer()
		if result := w.restore(info.ID); result.Written != 10_100 {
			b.Fatal(result.Written, result.Failed)
		}
	}
}
