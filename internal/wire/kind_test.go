package wire

import (
	"errors"
	"slices"
	"testing"
)

func TestKindOf(t *testing.T) {
	for reason, kind := range kinds {
		if !slices.Contains(Kinds(), kind) {
			t.Errorf("%q is of the unknown kind %q", reason, kind)
		}
	}
	for line, want := range map[string]string{
		`[{"jsonrpc":"2.0","method":"a"}]`:          KindBatch,
		"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}": KindEncoding,
		`{"jsonrpc":"2.0",`:                         KindJSON,
		`{"jsonrpc":"2.0"}{}`:                       KindLineBreak,
		`{"jsonrpc":"1.0","id":1,"method":"a"}`:     KindVersion,
		`{"jsonrpc":"2.0","id":1}`:                  KindShape,
		`{"jsonrpc":"2.0"}`:                         KindShape,
	} {
		var e Envelope
		var refusal *Refusal
		if err := Read([]byte(line), FromAgent, &e); !errors.As(err, &refusal) || KindOf(refusal.Reason) != want {
			t.Errorf("%s: got %v of kind %q, want %q", line, err, KindOf(refusal.Reason), want)
		}
	}
	if got := KindOf("an answer without a request"); got != KindUnexpected {
		t.Errorf("got %q", got)
	}
}
