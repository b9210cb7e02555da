package wire

import (
	"fmt"
	"strings"
	"testing"
)

// Batch reports each message of a refused batch whose id somebody may wait for, once.
func TestBatch(t *testing.T) {
	for _, tt := range []struct {
		line, want string
		from       Side
	}{
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t"}}]`, `1 true, "a" true`, FromAgent},
		{` [ {"jsonrpc":"2.0","id":1,"method":"ping"} , {"jsonrpc":"2.0","method":"notifications/x"}, 7, [{"id":9,"method":"x"}], {"id":1,"method":"ping"}, {"id":2,"method":"ping"}]`, `1 true, 2 true`, FromAgent},
		{`[{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"},{"jsonrpc":"2.0","id":null,"method":"ping"},{"id":3,"result":{}}]`, `3 false`, FromAgent},
		{`[{"jsonrpc":"2.0","id":4,"result":{}},{"jsonrpc":"2.0","id":5,"error":{"code":1,"message":"x"}},{"jsonrpc":"2.0","id":6,"method":"roots/list"}]`, `4 false, 5 false, 6 true`, FromServer},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"pi`, `1 true`, FromAgent},
		{`[]`, ``, FromAgent},
		{`{"id":1,"method":"ping"}`, ``, FromAgent},
		{`[info] {"id":1}`, ``, FromServer},
	} {
		var got []string
		Batch([]byte(tt.line), tt.from, func(id []byte, asks bool) { got = append(got, fmt.Sprintf("%s %v", id, asks)) })
		if s := strings.Join(got, ", "); s != tt.want {
			t.Errorf("%s: got %q, want %q", tt.line, s, tt.want)
		}
	}
}

// Batch examines at most maxBatch elements.
func TestLongBatch(t *testing.T) {
	line := []byte("[")
	for id := range maxBatch + 9 {
		line = fmt.Appendf(line, `{"jsonrpc":"2.0","id":%d,"method":"ping"},`, id)
	}
	n := 0
	Batch(line, FromAgent, func([]byte, bool) { n++ })
	if n != maxBatch {
		t.Errorf("%d are answered", n)
	}
}

func TestArgumentsOfNullAreNone(t *testing.T) {
	line := []byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"arguments":null,"name":"t"}}`)
	var e Envelope
	if err := Read(line, FromAgent, &e); err != nil || e.Arguments.Present() {
		t.Errorf("%v, arguments %s", err, e.Arguments.Of(line))
	}
}
