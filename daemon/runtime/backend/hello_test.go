package backend

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// TestAgreement checks that clients that share a server have sent the same handshake, as every JSON
// reader sees it.
func TestAgreement(t *testing.T) {
	of := func(params string) string { return agreement([]byte(params), wire.Span{End: len(params)}) }
	const one = `{"protocolVersion":"1","capabilities":{"a":1.0,"b":{}}}`
	for params, same := range map[string]bool{
		`{"clientInfo":{}, "capabilities": {"b":{} ,"a":1.0},"protocolVersion":"\u0031"}`: true,
		`{"protocolVersion":"1","capabilities":{"a":1,"b":{}}}`:                           false,
		`{"protocolVersion":"1"}`: false,
		`{"protocolVersion":"2","ProtocolVersion":"1","capabilities":{"a":1.0,"b":{}}}`: false,
		`{"ProtocolVersion":"1","capabilities":{"a":1.0,"b":{}}}`:                       false,
	} {
		if got := of(params) == of(one); got != same {
			t.Errorf("%s agrees with %s: %v", params, one, got)
		}
	}
}
