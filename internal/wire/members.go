package wire

import (
	"bytes"
)

func (w *walker) version() error {
	var s Span
	raw, err := w.scalar(&s)
	if err != nil {
		return err
	}
	if raw[0] != '"' {
		return errVersion
	}
	var text []byte
	if text, w.name = unquoteName(w.name, raw); string(text) != "2.0" {
		return errVersion
	}
	return nil
}

func (w *walker) id() error {
	raw, err := w.scalar(&w.e.ID)
	if err != nil {
		return err
	}
	if !validID(raw) {
		return errID
	}
	return nil
}

func (w *walker) method() error {
	var s Span
	raw, err := w.scalar(&s)
	if err != nil {
		return err
	}
	if raw[0] != '"' || len(raw) > 6*MaxMethod {
		return errMethod
	}
	var text []byte
	text, w.name = unquoteName(w.name, raw)
	if len(text) == 0 || len(text) > MaxMethod || !plain(text) {
		return errMethod
	}
	w.e.Method = methodName(text)
	return nil
}

func (w *walker) paramMember(index int) error {
	e := &w.e
	e.Bare = e.Bare && (index == paramName || index == paramURI || index == paramArguments)
	switch index {
	case unknown:
		return w.skip()
	case paramArguments:
		if err := w.value(&e.Arguments); err != nil {
			return err
		}
		switch w.line[e.Arguments.Start] {
		case '{':
		case 'n': // the Go SDK writes null for a nil map
			e.Arguments = Span{}
		default:
			return errArguments
		}
		return nil
	case paramMeta:
		if w.dec.PeekKind() == '{' {
			return w.object(&e.Meta, nil, metaNames, w.metaMember)
		}
	}
	return w.value([...]*Span{
		paramName: &e.Name, paramURI: &e.URI, paramMeta: &e.Meta, paramRequestID: &e.RequestID, paramTask: &e.Task, paramTaskID: &e.TaskID,
		paramRequestState: &e.RequestState, paramInputResponses: &e.InputResponses, paramInputRequests: &e.InputRequests,
		paramMode: &e.Mode, paramRef: &e.Ref, paramNotifications: &e.Notifications,
	}[index])
}

func (w *walker) metaMember(index int) error {
	switch index {
	case metaProgressToken:
		return w.value(&w.e.ProgressToken)
	case metaVersion:
		if err := w.value(&w.e.Version); err != nil {
			return err
		}
		if w.line[w.e.Version.Start] != '"' {
			return errMetaVersion
		}
		w.e.Modern = true
		return nil
	}
	return w.skip()
}

func (w *walker) resultMember(index int) error {
	e := &w.e
	switch index {
	case resultIsError:
		var s Span
		raw, err := w.scalar(&s)
		e.IsError = bytes.Equal(raw, []byte("true"))
		return err
	case resultResultType:
		return w.value(&e.ResultType)
	case resultInputRequests:
		return w.value(&e.InputRequests)
	case resultTask:
		return w.value(&e.CreatedTask)
	case resultTaskID:
		return w.value(&e.CreatedTaskID)
	}
	return w.skip()
}

// errorObject reads the member error: {integer code, string message}.
func (w *walker) errorObject() error {
	var code, message bool
	err := w.object(&w.e.Error, errErrorShape, errorNames, func(index int) error {
		var s Span
		switch index {
		case errorCode:
			raw, err := w.scalar(&s)
			if err != nil {
				return err
			}
			w.e.Code, code = integer(raw)
			return nil
		case errorMessage:
			message = w.dec.PeekKind() == '"'
		}
		return w.skip()
	})
	if err == nil && !(code && message) {
		return errErrorShape
	}
	return err
}

// shape decides what the message is by the members it has.
func (w *walker) shape() error {
	seen := &w.seen
	asks := seen[topMethod] || seen[topParams]
	answers := seen[topResult] || seen[topError]
	switch {
	case !seen[topJSONRPC]:
		return errVersion
	case asks && answers:
		return errMixed
	case seen[topResult] && seen[topError]:
		return errBoth
	case seen[topMethod] && seen[topID]:
		w.e.Kind = Request
	case seen[topMethod]:
		w.e.Kind = Notification
	case seen[topResult] && seen[topID]:
		w.e.Kind = Result
	case seen[topResult]:
		return errResultNoID
	case seen[topError] && !seen[topID] && w.from == FromAgent:
		return errErrorNoID
	case seen[topError]:
		w.e.Kind = Error
	case seen[topID]:
		return errNeither
	default:
		return errShapeless
	}
	return nil
}

// methodName returns name as a string; those known to MCP are not allocated.
func methodName(name []byte) string {
	if known, ok := methods[string(name)]; ok {
		return known
	}
	return string(name)
}
