package mcp

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

func TestAnnounce(t *testing.T) {
	const item = `{"type":"text","text":"say \"so\""}`
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"isError":true}}`: `{"jsonrpc":"2.0","id":1,"result":{"content":[` + item + `,{"type":"text","text":"x"}],"isError":true}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":[ ] }}`:                                        `{"jsonrpc":"2.0","id":1,"result":{"content":[` + item + ` ] }}`,
		`{"jsonrpc":"2.0","id":1,"result":{"content":"x"}}`:                                         "",
		`{"jsonrpc":"2.0","id":1,"result":{"other":[]}}`:                                            "",
		`{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required"}}`:                         "",
	} {
		var e wire.Envelope
		if err := wire.Read([]byte(line), wire.FromServer, &e); err != nil {
			t.Fatal(err)
		}
		if want == "" {
			want = line
		}
		got := Announce([]byte(line), &e, `say "so"`)
		if string(got) != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		before, ok := WithoutAnnouncement(got, &e)
		if changed := want != line; ok != changed || changed && string(before) != line {
			t.Errorf("without it: %s, %v\nwant %s", before, ok, line)
		}
		if raw := e.Result.Of(got); len(raw) == 0 || raw[0] != '{' || raw[len(raw)-1] != '}' {
			t.Errorf("the envelope is of another line: %s", raw)
		}
	}
}
