package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/facts"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/journal"
)

// fields are the names of a log line's fields about a message, in order. Other fields follow
// them.
var fields = []string{
	"component", "server_id", "direction", "method", "tool", "message_id", "governance_decision", "profile", "latency_us",
	"policy_reason", "forwarded",
}

const (
	longestValue = 4 << 10  // bytes of a value as shown
	longestStack = 64 << 10 // bytes of a stack trace of ours
)

// newLogger returns the logger of a component. It logs to the journal if stderr leads there,
// and otherwise as JSON or text.
func newLogger(o options, component string, getenv func(string) string, stderr io.Writer) *slog.Logger {
	h := lines(o, stderr)
	if f, ok := stderr.(*os.File); ok && o.format == "" && journal.Leads(f, getenv("JOURNAL_STREAM")) {
		if j, err := journal.New(journal.Socket, "thoughtgated", o.level, h); err == nil {
			h = j // it lives as long as the process
		}
	}
	return slog.New(&tidy{to: h, component: component})
}

// takeLibraries has what libraries log by themselves logged for debugging only: the HTTP client quotes what
// servers send unasked.
func takeLibraries(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(to.Handler(), slog.LevelDebug).Writer())
}

// lines returns a handler that writes records as lines.
func lines(o options, w io.Writer) slog.Handler {
	ho := &slog.HandlerOptions{Level: o.level, ReplaceAttr: renamed}
	if o.format == "json" || o.format == "" && !isTerminal(w) {
		return slog.NewJSONHandler(w, ho)
	}
	return slog.NewTextHandler(w, ho)
}

// renamed gives the time and the level their usual names and formats.
func renamed(groups []string, a slog.Attr) slog.Attr {
	switch {
	case len(groups) > 0:
	case a.Key == slog.TimeKey:
		return slog.String("timestamp", a.Value.Time().UTC().Format("2006-01-02T15:04:05.000Z"))
	case a.Key == slog.LevelKey:
		return slog.String("level", strings.ToLower(a.Value.String()))
	}
	return a
}

// tidy is a handler that passes records on with each attribute once, in the order of fields,
// and with harmless values: control characters and whatever else package display escapes are
// escaped, secrets masked, long values truncated.
type tidy struct {
	to        slog.Handler
	component string
	prefix    string // of attribute names, from WithGroup
	attrs     []slog.Attr
}

// Enabled implements slog.Handler.
func (t *tidy) Enabled(ctx context.Context, level slog.Level) bool { return t.to.Enabled(ctx, level) }

// WithAttrs implements slog.Handler.
func (t *tidy) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *t
	for _, a := range attrs {
		with.attrs = t.add(slices.Clip(with.attrs), t.prefix, a)
	}
	return &with
}

// WithGroup implements slog.Handler.
func (t *tidy) WithGroup(name string) slog.Handler {
	with := *t
	with.prefix += name + "_"
	return &with
}

// Handle implements slog.Handler.
func (t *tidy) Handle(ctx context.Context, r slog.Record) error {
	all := []slog.Attr{slog.String("component", t.component)}
	for _, a := range t.attrs {
		all = put(all, a)
	}
	r.Attrs(func(a slog.Attr) bool {
		all = t.add(all, t.prefix, a)
		return true
	})
	slices.SortStableFunc(all, func(a, b slog.Attr) int { return place(a.Key) - place(b.Key) })
	out := slog.NewRecord(r.Time, r.Level, harmless(r.Message, longestValue), 0)
	out.AddAttrs(all...)
	return t.to.Handle(ctx, out)
}

func place(key string) int {
	if i := slices.Index(fields, key); i >= 0 {
		return i
	}
	return len(fields)
}

// add adds an attribute, or those of a group.
func (t *tidy) add(all []slog.Attr, prefix string, a slog.Attr) []slog.Attr {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "_"
		}
		for _, inner := range v.Group() {
			all = t.add(all, prefix, inner)
		}
		return all
	}
	key := prefix + a.Key
	return put(all, slog.Attr{Key: key, Value: tidied(key, v)})
}

// put adds an attribute, or replaces the one with its key.
func put(all []slog.Attr, a slog.Attr) []slog.Attr {
	if i := slices.IndexFunc(all, func(b slog.Attr) bool { return a.Key == b.Key }); i >= 0 {
		all[i] = a
		return all
	}
	return append(all, a)
}

// tidied returns a value that is safe to show.
func tidied(key string, v slog.Value) slog.Value {
	switch v.Kind() {
	case slog.KindBool, slog.KindInt64, slog.KindUint64, slog.KindFloat64:
		return v
	case slog.KindDuration, slog.KindTime:
		return slog.StringValue(v.String())
	}
	text := v.String()
	if v.Kind() == slog.KindAny {
		text = fmt.Sprint(v.Any())
	}
	switch key {
	case "sha256": // of the audit log: whoever compares it needs all of it
		return slog.StringValue(string(display.Text(text)))
	case "stack":
		return slog.StringValue(string(display.Lines(masked(text[:min(len(text), longestStack)]))))
	}
	return slog.StringValue(harmless(text, longestValue))
}

// harmless returns text on one line, without secrets, truncated to most bytes.
func harmless(text string, most int) string {
	all := len(text)
	text = masked(text[:min(all, 2*most)]) // masks also a secret that the cut would split
	cut := ""
	if all > most {
		text = text[:min(len(text), most)]
		cut = fmt.Sprintf(" … (%d more bytes)", all-most)
	}
	return string(display.Text(text)) + cut
}

// masked returns text with recognized secrets replaced.
func masked(text string) string {
	const shortest = 8 // no recognized secret is shorter
	if len(text) < shortest {
		return text
	}
	raw, err := json.Marshal(text)
	if err != nil {
		return "(not shown)"
	}
	clean := facts.Redact(raw, nil, func([]byte) string { return "[secret]" })
	if bytes.Equal(clean, raw) {
		return text
	}
	var out string
	if err := json.Unmarshal(clean, &out); err != nil {
		return "[secret]"
	}
	return out
}
