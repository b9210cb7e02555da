package protocol

import (
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// CheckResult refuses what is not the result of a tool, and returns it in one line.
func CheckResult(raw []byte) ([]byte, error) {
	o, err := readObject(raw)
	if err != nil {
		return nil, fmt.Errorf("the result of the tool: %w", err)
	}
	if content := o.get("content"); content.Kind() != '[' {
		return nil, errors.New("the result of the tool has no content array")
	}
	if wrong := o.get("isError"); wrong != nil && wrong.Kind() != 't' && wrong.Kind() != 'f' {
		return nil, errors.New("isError in the result of the tool is neither true nor false")
	}
	return OneLine(raw), nil
}

// StreamOf returns the request that a provider.stream.event names as its own; empty
// where it names none.
func StreamOf(params []byte) (string, error) {
	o, err := readObject(params)
	if err != nil {
		return "", err
	}
	return o.optional("request_id")
}

// WithRequest puts a request_id into params, which are an object with members.
func WithRequest(params []byte, request string) []byte {
	dst := append(wire.AppendQuote([]byte(`{"request_id":`), request), ',')
	return append(dst, params[1:]...)
}
