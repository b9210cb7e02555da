package facts

import (
	"cmp"
	"context"
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// kilobyte is an ordinary call of 1 KB: some settings, a path, some prose.
var kilobyte = `{"path":"/home/u/project/docs/notes/2026-11-20-planning.md","options":{"createDirs":true,"mode":"0644","encoding":"utf-8"},` +
	`"tags":["planning","release","q1"],"content":"` + strings.Repeat("The release is planned for next week; see docs/release.md for the list of tasks. ", 9) + `"}`

func BenchmarkOfOneKilobyte(b *testing.B) {
	f := New(Options{Home: "/home/u", Ours: func() []string {
		return []string{"/home/u/.config/thoughtgate", "/home/u/.local/state/thoughtgate", "/run/user/1000/thoughtgate", "/home/u/.claude.json"}
	}})
	c := callTo("write_file", kilobyte)
	b.SetBytes(int64(len(kilobyte)))
	b.ReportAllocs()
	for b.Loop() {
		if got := f.Of(context.Background(), c); len(got) > 0 {
			b.Fatalf("facts of a harmless call: %v", got)
		}
	}
}

func BenchmarkOfOneMegabyte(b *testing.B) {
	f := finder()
	text := strings.Repeat("The release is planned for next week; see docs/release.md for the list of tasks. ", 12500)
	c := callTo("write_file", `{"content":"`+text+`"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		f.Of(context.Background(), c)
	}
}

func BenchmarkRedact(b *testing.B) {
	values := []byte(`{"headers":{"authorization":"Bearer ` + body + `"},` + kilobyte[1:])
	b.SetBytes(int64(len(values)))
	b.ReportAllocs()
	for b.Loop() {
		Redact(values, []string{"options.mode", "items.*.secret"}, func([]byte) string { return "hmac:0000" })
	}
}

// BenchmarkOfSmall uses calls and results of a common size.
func BenchmarkOfSmall(b *testing.B) {
	f := New(Options{Home: "/home/u"})
	c := callTo("echo", `{"text":"0123456789abcdef"}`)
	b.ReportAllocs()
	for b.Loop() {
		f.Of(context.Background(), c)
		f.Forwarded(c)
	}
}

func BenchmarkObserveSmall(b *testing.B) {
	f := New(Options{})
	m := &gate.Observation{Attachment: "a", Server: "s", Side: wire.FromServer, Method: "tools/call", Text: []byte(`{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":"{\"text\":\"0123456789abcdef\"}"}]}}`)}
	b.ReportAllocs()
	for b.Loop() {
		f.Observe(m)
	}
}

// tenKilobytes are typical results of servers.
var tenKilobytes = map[string]string{
	"prose":   strings.Repeat("The release is planned for next week; Ann (ann@acme.io) wrote the list of tasks, see https://acme.io/tasks/17. ", 90),
	"code":    strings.Repeat("func (s *server) readNote(ctx context.Context, name string) (string, error) {\n\ts.mu.Lock()\n\tdefer s.mu.Unlock()\n\ttext, ok := s.all_notes[name]\n\tif !ok {\n\t\treturn \"\", fmt.Errorf(\"no note %q\", name)\n\t}\n\treturn text, nil\n}\n\n", 42),
	"json":    strings.Repeat(`{"id":10293847,"name":"Ann Example","email":"ann@acme.io","created_at":"2026-11-20T10:15:30Z","url":"https://api.acme.io/v1/users/17"},`, 74),
	"russian": strings.Repeat("Релиз запланирован на следующую неделю; список задач лежит в docs/release.md, спросите Анну. ", 65),
}

func BenchmarkObserve(b *testing.B) {
	for name, text := range tenKilobytes {
		b.Run(name, func(b *testing.B) {
			f := New(Options{})
			line := `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":` + string(quoted(text, true)) + `}]}}`
			m := &gate.Observation{Attachment: "a", Server: "s", Side: wire.FromServer, Method: "tools/call", Text: []byte(line)}
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				f.Observe(m)
			}
		})
	}
}

// BenchmarkSteers measures the share of the search for phrases that steer a model. The text wordy
// consists of words that also occur in such phrases.
func BenchmarkSteers(b *testing.B) {
	const wordy = "The tool was called before, and a message of the user must be sent to the file. Nobody can tell what the system says, or why. "
	for _, name := range []string{"prose", "code", "json", "russian", "wordy"} {
		text := cmp.Or(tenKilobytes[name], strings.Repeat(wordy, 80))
		b.Run(name, func(b *testing.B) {
			f, s := New(Options{}), new(steerScanner)
			line := `{"jsonrpc":"2.0","id":17,"result":{"content":[{"type":"text","text":` + string(quoted(text, true)) + `}]}}`
			m := &gate.Observation{Attachment: "a", Server: "s", Side: wire.FromServer, Method: "tools/call", Text: []byte(line)}
			b.SetBytes(int64(len(line)))
			for b.Loop() {
				f.detectSteering(&memory{}, 1, m, s)
			}
		})
	}
}

// BenchmarkRedactSmall measures the redaction of a small call for the record.
func BenchmarkRedactSmall(b *testing.B) {
	values := []byte(`{"path":"/srv/notes/7.txt","text":"0123456789abcdef"}`)
	b.ReportAllocs()
	for b.Loop() {
		Redact(values, nil, func([]byte) string { return "hmac:0000" })
	}
}
