package display

import (
	"strings"
	"testing"
)

// A megabyte of the slowest text must not keep a person waiting.
func BenchmarkText(b *testing.B) {
	for name, unit := range map[string]string{"ascii": "plain text ", "escapes": "\x1b\u202e", "twins": "рауpal ", "one word": "р", "Chinese": "你好", "marks": "e\u0301", "backslashes": `\u{`} {
		s := strings.Repeat(unit, (1<<20)/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Wrap(Text(s), 80)
			}
		})
	}
}

func BenchmarkJSON(b *testing.B) {
	for name, unit := range map[string]string{"strings": `"a short string",`, "numbers": "1,", "deep": "[", "one string": ""} {
		raw := "[" + strings.Repeat(unit, (1<<20)/max(len(unit), 1)) + "1]"
		switch name {
		case "deep":
			raw = strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
		case "one string":
			raw = `"` + strings.Repeat("x", 1<<20) + `"`
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				JSON([]byte(raw), 80)
				JSONLine([]byte(raw), 80, "")
			}
		})
	}
}
