package hostile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// message is one JSON-RPC message as a careful reader sees it. The reader is not
// the one under test, which would find its own mistakes right: it is the
// standard library's decoder with the checks that it lacks.
type message struct {
	members map[string]json.RawMessage
}

func (m *message) has(name string) bool { return m != nil && m.members[name] != nil }

// raw returns a member as written.
func (m *message) raw(name string) string {
	if m == nil {
		return ""
	}
	return string(m.members[name])
}

// text returns a member that is a string, unescaped; empty for any other.
func (m *message) text(name string) string {
	var s string
	if !m.has(name) || json.Unmarshal(m.members[name], &s) != nil {
		return ""
	}
	return s
}

func (m *message) request() bool { return m.has("method") && m.has("id") }

// fault is an error as a message carries it.
type fault struct {
	code    int
	message string
}

// fault returns the error of m. It fails unless that is an integer code and a
// text.
func (m *message) fault() (fault, error) {
	var f struct {
		Code    *int    `json:"code"`
		Message *string `json:"message"`
	}
	if err := json.Unmarshal(m.members["error"], &f); err != nil {
		return fault{}, err
	}
	if f.Code == nil || f.Message == nil {
		return fault{}, errors.New("an error without code or message")
	}
	return fault{*f.Code, *f.Message}, nil
}

// declined reports whether m is what a server is told that may not ask the user.
func (m *message) declined() bool { return m.raw("result") == `{"action":"decline"}` }

// refusedTool reports whether m is the result of a tool that was not executed.
func (m *message) refusedTool() bool {
	var result struct {
		IsError bool `json:"isError"`
	}
	return m.has("result") && !m.has("error") && json.Unmarshal(m.members["result"], &result) == nil && result.IsError
}

// readMessage reads a line that must be one message of JSON-RPC 2.0 and nothing
// else.
func readMessage(line []byte) (*message, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if !utf8.Valid(line) {
		return nil, errors.New("not UTF-8")
	}
	if bytes.IndexByte(line, '\r') >= 0 {
		return nil, errors.New("a carriage return inside")
	}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := walk(decoder); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, errors.New("something follows the message")
	}
	m := &message{}
	if err := json.Unmarshal(line, &m.members); err != nil {
		return nil, err
	}
	switch {
	case m.text("jsonrpc") != "2.0":
		return nil, errors.New("not of JSON-RPC 2.0")
	case m.has("method") && (m.has("result") || m.has("error")):
		return nil, errors.New("request and answer at once")
	case !m.has("method") && m.has("result") == m.has("error"):
		return nil, errors.New("neither or both of result and error")
	}
	return m, nil
}

// walk reads one value and refuses names that come twice.
func walk(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	opened, ok := token.(json.Delim)
	if !ok {
		return nil
	}
	names := map[string]bool{}
	for decoder.More() {
		if opened == '{' {
			name, err := decoder.Token()
			if err != nil {
				return err
			}
			if names[name.(string)] {
				return fmt.Errorf("the name %q comes twice", name)
			}
			names[name.(string)] = true
		}
		if err := walk(decoder); err != nil {
			return err
		}
	}
	_, err = decoder.Token()
	return err
}
