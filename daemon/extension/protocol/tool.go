package protocol

import (
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// CheckResult refuses what is not the result of a tool, and returns it in one line.
func CheckResult(raw []byte) ([]byte, error) {
	o := rawjson.Read(raw)
	if o.True("isError"); o.Get("content").Kind() != '[' {
		o.Fail("there is no content array in it")
	}
	if err := o.Err(); err != nil {
		return nil, fmt.Errorf("the result of the tool: %w", err)
	}
	return OneLine(raw), nil
}

// StreamOf returns the request that a provider.stream.event names as its own; empty
// where it names none.
func StreamOf(params []byte) (string, error) {
	o := rawjson.Read(params)
	return o.OptionalText("request_id"), o.Err()
}

// WithRequest puts a request_id into params, which are an object with members.
func WithRequest(params []byte, request string) []byte {
	dst := append(wire.AppendQuote([]byte(`{"request_id":`), request), ',')
	return append(dst, params[1:]...)
}
