package wire

import "testing"

func TestOpensMessage(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"ping"}}}`: true,
		` {"x":{"y":[1]},"m\u0065thod":"ping"} , {}`: true,
		`[{"id":1},{"method":"ping"}]]`:              true,
		`[1,{"x":1,"jsonrpc":`:                       true,
		`{"x":{"method":"ping"}}`:                    false,
		`"}, {"method":"ping"}`:                      false,
		`,{"method":"ping"}`:                         false,
		`{"id":1,"params":["method","jsonrpc"]}`:     false,
		`{"id":1} {"method":"ping"}`:                 false,
		`x{"method":"ping"}`:                         false,
		``:                                           false,
		`[[{"method":"ping"}]]`:                      false,
		`{"params":{},"id":"method","x":"jsonrpc"}`:  false,
	} {
		if got := OpensMessage([]byte(text)); got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}
