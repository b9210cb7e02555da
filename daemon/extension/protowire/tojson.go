package protowire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var (
	errUnknown = errors.New("a field that is not known")
	errJSON    = errors.New("bytes that are not one JSON text")
)

// loose lets through a lone surrogate that is escaped, which is how JavaScript
// writes text that was cut. It would let invalid UTF-8 through as well, which is
// looked for before.
var loose = jsontext.AllowInvalidUTF8(true)

// checkJSON fails unless raw is one JSON text with nothing around it but blanks.
func checkJSON(raw []byte) error {
	if !utf8.Valid(raw) {
		return errJSON
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), loose)
	if _, err := dec.ReadValue(); err != nil {
		return errJSON
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errJSON
	}
	return nil
}

// appendMessage appends the JSON of m: an object, or what the message is whole.
func appendMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	if len(m.GetUnknown()) > 0 {
		return nil, errUnknown
	}
	fields := m.Descriptor().Fields()
	if m.Descriptor().FullName() == whole {
		return appendRaw(dst, m.Get(fields.Get(0)).Bytes())
	}
	var err error
	dst = append(dst, '{')
	for i := range fields.Len() {
		field := fields.Get(i)
		if absent(m, field) {
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(append(append(dst, '"'), field.Name()...), '"', ':')
		switch value := m.Get(field); {
		case field.IsList():
			dst, err = appendList(dst, field, value.List())
		case field.IsMap():
			dst, err = appendMap(dst, value.Map())
		default:
			dst, err = appendValue(dst, field, value)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.Name(), err)
		}
	}
	return append(dst, '}'), nil
}

// absent reports whether the JSON of m is to have no such member: what may be
// left out and was, and JSON that is empty.
func absent(m protoreflect.Message, field protoreflect.FieldDescriptor) bool {
	if field.HasPresence() {
		return !m.Has(field)
	}
	return field.Kind() == protoreflect.BytesKind && !field.IsList() && len(m.Get(field).Bytes()) == 0
}

func appendList(dst []byte, field protoreflect.FieldDescriptor, list protoreflect.List) ([]byte, error) {
	dst = append(dst, '[')
	for i := range list.Len() {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendValue(dst, field, list.Get(i)); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

// appendMap appends a map of strings, in the order of its keys.
func appendMap(dst []byte, m protoreflect.Map) ([]byte, error) {
	var keys []string
	m.Range(func(key protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, key.String())
		return true
	})
	slices.Sort(keys)
	dst = append(dst, '{')
	for i, key := range keys {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = jsontext.AppendQuote(dst, key); err != nil {
			return nil, err
		}
		value := m.Get(protoreflect.ValueOfString(key).MapKey())
		if dst, err = jsontext.AppendQuote(append(dst, ':'), value.String()); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendValue(dst []byte, field protoreflect.FieldDescriptor, v protoreflect.Value) ([]byte, error) {
	switch field.Kind() {
	case protoreflect.MessageKind:
		return appendMessage(dst, v.Message())
	case protoreflect.StringKind:
		return jsontext.AppendQuote(dst, v.String())
	case protoreflect.BytesKind:
		return appendRaw(dst, v.Bytes())
	case protoreflect.BoolKind:
		return strconv.AppendBool(dst, v.Bool()), nil
	case protoreflect.EnumKind:
		word, err := wordOf(field.Enum(), v.Enum())
		return append(append(append(dst, '"'), word...), '"'), err
	case protoreflect.DoubleKind:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return nil, errors.New("not a number that JSON has")
		}
		return strconv.AppendFloat(dst, v.Float(), 'g', -1, 64), nil
	case protoreflect.Uint32Kind, protoreflect.Uint64Kind:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case protoreflect.Int32Kind, protoreflect.Int64Kind:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	}
	return nil, fmt.Errorf("no JSON for a field that is %s", field.Kind())
}

func appendRaw(dst, raw []byte) ([]byte, error) {
	if err := checkJSON(raw); err != nil {
		return nil, err
	}
	return append(dst, raw...), nil
}

// wordOf returns what a value of an enum is called in JSON: ACTION_BLOCK of
// Action is block. The zero of an enum says that nothing was said.
func wordOf(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) (string, error) {
	value := enum.Values().ByNumber(number)
	if value == nil || number == 0 {
		return "", fmt.Errorf("%d is no %s", number, enum.Name())
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefixOf(enum))), nil
}

func prefixOf(enum protoreflect.EnumDescriptor) string {
	return strings.ToUpper(string(enum.Name())) + "_"
}
