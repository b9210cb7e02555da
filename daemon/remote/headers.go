package remote

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Headers of MCP over HTTP.
const (
	sessionHeader = "Mcp-Session-Id"
	versionHeader = "Mcp-Protocol-Version"
	methodHeader  = "Mcp-Method"
	nameHeader    = "Mcp-Name"
	paramPrefix   = "Mcp-Param-"
	eventHeader   = "Last-Event-Id"
)

const (
	maxSafeInteger = 1<<53 - 1 // the largest that JavaScript represents exactly
	maxMirrored    = 64        // parameters of a tool that are repeated in headers
	maxTools       = 4096      // whose parameters are remembered
	maxValueBytes  = 8 << 10   // of a header that repeats a part of the message
)

// mirror is a parameter that a tool wants repeated in a header: x-mcp-header in its input schema.
type mirror struct {
	path   []string // names of members within the arguments
	header string
}

// setModern sets the headers that repeat parts of a message of the modern era for programs between
// client and server. They are computed from the bytes that are sent.
func setModern(h http.Header, line []byte, e *wire.Envelope, mirrors []mirror) {
	if version, err := wire.Unquote(e.Version, line); err == nil && isVisible(version, maxVersionBytes) {
		h.Set(versionHeader, version)
	}
	h.Set(methodHeader, e.Method)
	name := e.Name
	switch e.Method {
	case "resources/read":
		name = e.URI
	case "tools/call", "prompts/get":
	default:
		name = wire.Span{}
	}
	if text, err := wire.Unquote(name, line); err == nil {
		setValue(h, nameHeader, text)
	}
	for _, m := range mirrors {
		if text, ok := m.value(e.Arguments.Of(line)); ok {
			setValue(h, paramPrefix+m.header, text)
		}
	}
}

// setValue sets a header to a text of a message. What is too long is left out, which the server
// answers with an error.
func setValue(h http.Header, name, text string) {
	if value := headerValue(text); len(value) <= maxValueBytes {
		h.Set(name, value)
	}
}

// headerValue returns text as the value of a header: as it is, or in base64 between marks if it is not
// plain ASCII or could be taken for such a value.
func headerValue(text string) string {
	const before, after = "=?base64?", "?="
	isPlain := strings.TrimSpace(text) == text && !(strings.HasPrefix(text, before) && strings.HasSuffix(text, after))
	for i := range len(text) {
		isPlain = isPlain && ' ' <= text[i] && text[i] <= '~'
	}
	if isPlain {
		return text
	}
	return before + base64.StdEncoding.EncodeToString([]byte(text)) + after
}

// isVisible reports whether text has at most max bytes and is of visible ASCII, as a session id and a
// version have to be.
func isVisible(text string, max int) bool {
	return text != "" && len(text) <= max && strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}

// value returns the value of m in arguments, as it is repeated in the header. Absent values, null, and
// values of other types are not repeated.
func (m *mirror) value(arguments []byte) (string, bool) {
	for _, name := range m.path {
		members, err := rawjson.Members(arguments)
		i := slices.IndexFunc(members, func(member rawjson.Member) bool { return member.Name == name })
		if err != nil || i < 0 {
			return "", false
		}
		arguments = members[i].Value
	}
	switch raw := string(arguments); {
	case raw == "true" || raw == "false":
		return raw, true
	case strings.HasPrefix(raw, `"`):
		text, err := rawjson.Text(arguments)
		return text, err == nil
	}
	number, err := strconv.ParseFloat(string(arguments), 64) // 42.0 is an integer, too
	if err != nil || number < -maxSafeInteger || number > maxSafeInteger || number != float64(int64(number)) {
		return "", false
	}
	return strconv.FormatInt(int64(number), 10), true
}

var mark = []byte(`"x-mcp-header"`)

// mirrorsOf returns the parameters of a tool that are repeated in headers, from its raw definition. It
// fails if the definition breaks the rules for them, in which case no client may use the tool.
func mirrorsOf(tool []byte) ([]mirror, error) {
	if !bytes.Contains(tool, mark) {
		return nil, nil
	}
	members, err := rawjson.Members(tool)
	if err != nil {
		return nil, err
	}
	var s schema
	for _, m := range members {
		if m.Name == "inputSchema" {
			if err := s.read(m.Value, nil); err != nil {
				return nil, err
			}
		}
	}
	return s.mirrors, nil
}

// schema collects the mirrors of an input schema.
type schema struct{ mirrors []mirror }

// read reads the schema of the parameter at path.
func (s *schema) read(raw []byte, path []string) error {
	if !bytes.Contains(raw, mark) {
		return nil
	}
	members, err := rawjson.Members(raw)
	if err != nil {
		return err
	}
	kind, header := "", []byte(nil)
	for _, m := range members {
		switch m.Name {
		case "type":
			kind, _ = rawjson.Text(m.Value) // lists of types are none of the permitted ones
		case "x-mcp-header":
			header = m.Value
		case "properties":
			properties, err := rawjson.Members(m.Value)
			if err != nil {
				return err
			}
			for _, p := range properties {
				if err := s.read(p.Value, append(slices.Clone(path), p.Name)); err != nil {
					return err
				}
			}
		default:
			if bytes.Contains(m.Value, mark) {
				return fmt.Errorf("x-mcp-header below %q, where no parameter is reached for sure", m.Name)
			}
		}
	}
	if header == nil {
		return nil
	}
	return s.add(header, kind, path)
}

func (s *schema) add(header []byte, kind string, path []string) error {
	name, err := rawjson.Text(header)
	switch {
	case err != nil || !httpguts.ValidHeaderFieldName(name) || len(name) > 128:
		return errors.New("x-mcp-header is not the name of a header")
	case len(path) == 0 || kind != "string" && kind != "integer" && kind != "boolean":
		return errors.New("x-mcp-header of a parameter that is neither string nor integer nor boolean")
	case len(s.mirrors) == maxMirrored:
		return fmt.Errorf("x-mcp-header of more than %d parameters", maxMirrored)
	case slices.ContainsFunc(s.mirrors, func(m mirror) bool { return strings.EqualFold(m.header, name) }):
		return fmt.Errorf("x-mcp-header %q of two parameters", name)
	}
	s.mirrors = append(s.mirrors, mirror{path, name})
	return nil
}
