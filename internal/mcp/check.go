package mcp

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Reasons to refuse a message that could be read. The texts are stable.
const (
	actsWithoutID  = "a notification that acts: only requests may act"
	asksInModern   = "a request from a server of the modern era, which sends none"
	namesNothing   = "its subject is missing"
	unclearSubject = "its subject is empty or has invisible characters"
	longSubject    = "its subject is longer than 8192 bytes"
)

// MaxSubject is the maximum length of a tool, prompt or task name and of a resource URI,
// in bytes: each is matched against all patterns of the rules.
const MaxSubject = 8 << 10

// Check applies the rules that depend on the method: an acting message must be a request
// and name its subject clearly. It returns nil if the message may be looked up.
func Check(side wire.Side, e *wire.Envelope, line []byte) *wire.Refusal {
	switch e.Kind {
	case wire.Notification:
		// Lookup refuses it too, as misplaced, but this reason is more precise.
		if methods[e.Method] {
			return e.Refuse(wire.CodeInvalid, actsWithoutID)
		}
		return nil
	case wire.Request:
	default:
		return nil
	}
	if side == wire.FromServer {
		if e.Modern {
			r := e.Refuse(wire.CodeInvalid, asksInModern)
			r.Answer = false
			return r
		}
		return nil
	}
	rule := Lookup(side, e)
	if !rule.Acting {
		return nil
	}
	switch clear, short, err := isClear(rule.Subject, e, line); {
	case err != nil:
		return e.Refuse(wire.CodeInvalidParams, namesNothing)
	case !short:
		return e.Refuse(wire.CodeInvalidParams, longSubject)
	case !clear:
		return e.Refuse(wire.CodeInvalidParams, unclearSubject)
	}
	return nil
}

// clearSubject reports whether the name or URI of a subject can be shown to a person and
// matched by a rule without ambiguity.
func clearSubject(kind Subject, text string) bool {
	if kind == Resource {
		return ClearURI(text)
	}
	return ClearName(text)
}

// ClearName reports whether name can be the name of a tool or prompt: it is not empty,
// not longer than [MaxSubject], contains no invisible characters or direction marks, and
// neither begins nor ends with a blank, which a server might trim.
func ClearName(name string) bool {
	if len(name) > MaxSubject {
		return false
	}
	for _, r := range name {
		if wire.Unseen(r) || unicode.IsSpace(r) && r != ' ' {
			return false
		}
	}
	return name != "" && name[0] != ' ' && name[len(name)-1] != ' '
}

// ClearURI reports whether uri can be the URI of a resource: it is not empty, not longer
// than [MaxSubject], and contains no control characters.
func ClearURI(uri string) bool {
	if len(uri) > MaxSubject {
		return false
	}
	for _, r := range uri {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return false
		}
	}
	return uri != ""
}

// SubjectOf returns the subject of a message, unescaped: the name of a tool or prompt,
// the URI of a resource, or the id of a task. It is empty if the message has none of
// these, or may have several. It fails for an acting message that [Check] would refuse.
func SubjectOf(e *wire.Envelope, line []byte) (string, error) {
	if e.Kind != wire.Request {
		return "", nil
	}
	rule := Lookup(wire.FromAgent, e)
	if !rule.Acting || rule.Subject == Listen {
		return "", nil
	}
	_, text, err := subjectOf(rule.Subject, e, line)
	if err != nil {
		return "", err
	}
	return text, nil
}

// subjectOf returns the subject of e, which must not be Listen. For a Reference, the
// returned kind is that of its target: a prompt by its name, or resources by their
// template.
func subjectOf(kind Subject, e *wire.Envelope, line []byte) (of Subject, text string, err error) {
	name, address := e.Name, e.URI
	if kind == Reference {
		switch kind = ReferenceKind(e, line); kind {
		case Prompt:
			name, err = wire.Member(line, e.Ref, "name")
		case Resource:
			address, err = wire.Member(line, e.Ref, "uri")
		}
	}
	var at wire.Span
	switch kind {
	case Tool, Prompt:
		at = name
	case Resource:
		at = address
	case Task:
		at = e.TaskID
	}
	if err == nil {
		text, err = wire.Unquote(at, line)
	}
	return kind, text, err
}

// isClear reports whether every subject of e is clear, and whether it is short enough. It
// fails if the subject can't be determined.
func isClear(kind Subject, e *wire.Envelope, line []byte) (clear, short bool, err error) {
	if kind != Listen {
		kind, text, err := subjectOf(kind, e, line)
		return err == nil && clearSubject(kind, text), len(text) <= MaxSubject, err
	}
	_, uris, err := ListenURIs(e, line)
	for _, uri := range uris {
		if !ClearURI(uri) {
			return false, len(uri) <= MaxSubject, err
		}
	}
	return err == nil, true, err
}

// ReferenceKind returns the kind that the ref of a completion/complete refers to: Prompt
// or Resource, or None if it is unclear.
func ReferenceKind(e *wire.Envelope, line []byte) Subject {
	at, err := wire.Member(line, e.Ref, "type")
	if err != nil {
		return None
	}
	switch kind, _ := wire.Unquote(at, line); kind {
	case "ref/prompt":
		return Prompt
	case "ref/resource":
		return Resource
	}
	return None
}

// ListenURIs returns the resources that a subscriptions/listen subscribes to: their spans
// in the line and their URIs. There may be none.
func ListenURIs(e *wire.Envelope, line []byte) (wire.Items, []string, error) {
	if !e.Notifications.Present() {
		return nil, nil, nil
	}
	array, err := wire.Member(line, e.Notifications, "resourceSubscriptions")
	if err != nil || !array.Present() {
		return nil, nil, err
	}
	items, err := wire.Elements(line, array)
	if err != nil {
		return nil, nil, err
	}
	uris := make([]string, len(items))
	for i, item := range items {
		if uris[i], err = wire.Unquote(item, line); err != nil {
			return nil, nil, err
		}
	}
	return items, uris, nil
}

// Asks reports whether the message e in line may ask its reader for something: it carries
// asks, or is a result whose type is not complete. Such a message is judged, whatever it
// answers.
func Asks(line []byte, e *wire.Envelope) bool {
	kind := string(e.ResultType.Of(line))
	return kind != "" && kind != `"complete"` || e.InputRequests.Present()
}

// AsksWithin reports whether a message e about a task, a notification or the result of
// method, contains another result that asks for something. It is false for messages that
// are not about a task.
func AsksWithin(line []byte, e *wire.Envelope, method string) bool {
	of := e.Result
	switch {
	case e.Kind == wire.Notification:
		of = e.Params
	case !strings.HasPrefix(method, "tasks/") && !e.CreatedTask.Present():
		return false
	}
	if raw := of.Of(line); len(raw) == 0 || raw[0] != '{' {
		return false
	}
	asks := false
	err := wire.Members(line, of, func(name []byte, value wire.Span) error {
		if raw := value.Of(line); raw[0] != '{' {
			return nil
		}
		var inner wire.Envelope
		switch string(name) {
		case "result", "task":
			return wire.Members(line, value, func(name []byte, value wire.Span) error {
				switch string(name) {
				case "resultType":
					inner.ResultType = value
				case "inputRequests":
					inner.InputRequests = value
				}
				asks = asks || Asks(line, &inner)
				return nil
			})
		case "error":
			return wire.Members(line, value, func(name []byte, value wire.Span) error {
				code, err := strconv.ParseFloat(string(value.Of(line)), 64)
				asks = asks || string(name) == "code" && err == nil && code == CodeURLRequired
				return nil
			})
		}
		return nil
	})
	return asks || err != nil
}
