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
	errUnknown = errors.New("an unknown field")
	errJSON    = errors.New("bytes that are not a single JSON text")
)

// loose accepts an escaped lone surrogate, which JavaScript writes for truncated text. It also
// accepts invalid UTF-8, which is therefore checked first.
var loose = jsontext.AllowInvalidUTF8(true)

// checkJSON returns an error unless raw is one JSON text, with nothing around it but blanks.
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

// appendMessage appends the JSON of m: an object, or that of its only field if the message is
// whole.
func appendMessage(dst []byte, m protoreflect.Message) ([]byte, error) {
	if len(m.GetUnknown()) > 0 {
		return nil, errUnknown
	}
	fields := m.Descriptor().Fields()
	if m.Descriptor().FullName() == bareMessage {
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

// absent reports whether the JSON of m omits a member: an optional field that is not set, or
// empty JSON.
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

// appendMap appends a map of strings, sorted by key.
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
			return nil, errors.New("not a JSON number")
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

// wordOf returns the JSON value of an enum value: for ACTION_BLOCK of Action it is block. Zero
// means unspecified and is an error.
func wordOf(enum protoreflect.EnumDescriptor, number protoreflect.EnumNumber) (string, error) {
	value := enum.Values().ByNumber(number)
	if value == nil || number == 0 {
		return "", fmt.Errorf("%d is not a value of %s", number, enum.Name())
	}
	return strings.ToLower(strings.TrimPrefix(string(value.Name()), prefixOf(enum))), nil
}

func prefixOf(enum protoreflect.EnumDescriptor) string {
	return strings.ToUpper(string(enum.Name())) + "_"
}

// readMessage fills m from text: an object, or the only field if the message is whole.
func readMessage(text []byte, m protoreflect.Message) error {
	if !utf8.Valid(text) {
		return errJSON
	}
	if m.Descriptor().FullName() == bareMessage {
		if err := checkJSON(text); err != nil {
			return err
		}
		m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(text))
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), loose) // NewDecoder reads a bytes.Buffer in place
	if err := readObject(dec, m); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errJSON
	}
	return nil
}

// each calls read for every member or element of the next object or array of dec.
func each(dec *jsontext.Decoder, open jsontext.Kind, read func() error) error {
	if dec.PeekKind() != open {
		return errors.New(map[jsontext.Kind]string{'{': "not an object", '[': "not an array"}[open])
	}
	if _, err := dec.ReadToken(); err != nil {
		return errJSON
	}
	for kind := dec.PeekKind(); kind != '}' && kind != ']'; kind = dec.PeekKind() {
		if err := read(); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return errJSON
	}
	return nil
}

func readObject(dec *jsontext.Decoder, m protoreflect.Message) error {
	return each(dec, '{', func() error {
		name, err := dec.ReadToken()
		if err != nil {
			return errJSON
		}
		field := m.Descriptor().Fields().ByName(protoreflect.Name(name.String()))
		if field == nil {
			return fmt.Errorf("a member %q, which the protobuf protocol does not have", name.String())
		}
		if err := readField(dec, m, field); err != nil {
			return fmt.Errorf("%s: %w", field.Name(), err)
		}
		return nil
	})
}

func readField(dec *jsontext.Decoder, m protoreflect.Message, field protoreflect.FieldDescriptor) error {
	switch {
	case field.IsList():
		return readList(dec, m.Mutable(field).List(), field)
	case field.IsMap():
		return readMap(dec, m.Mutable(field).Map())
	case field.Kind() == protoreflect.MessageKind:
		return readObject(dec, m.Mutable(field).Message())
	case field.HasPresence() && dec.PeekKind() == 'n':
		return dec.SkipValue()
	}
	value, err := readValue(dec, field)
	if err == nil {
		m.Set(field, value)
	}
	return err
}

func readList(dec *jsontext.Decoder, list protoreflect.List, field protoreflect.FieldDescriptor) error {
	return each(dec, '[', func() error {
		if field.Kind() == protoreflect.MessageKind {
			return readObject(dec, list.AppendMutable().Message())
		}
		value, err := readValue(dec, field)
		if err == nil {
			list.Append(value)
		}
		return err
	})
}

// readMap parses an object whose members are strings.
func readMap(dec *jsontext.Decoder, m protoreflect.Map) error {
	return each(dec, '{', func() error {
		key, err := readText(dec)
		if err != nil {
			return err
		}
		value, err := readText(dec)
		if err == nil {
			m.Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(value))
		}
		return err
	})
}

// readText parses a string. Protobuf strings must be valid Unicode.
func readText(dec *jsontext.Decoder) (string, error) {
	raw, err := dec.ReadValue()
	if err != nil {
		return "", errJSON
	}
	if raw.Kind() != '"' {
		return "", errors.New("not a string")
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", errors.New("a string that is not valid Unicode")
	}
	return string(text), nil
}

func readValue(dec *jsontext.Decoder, field protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	switch field.Kind() {
	case protoreflect.StringKind:
		text, err := readText(dec)
		return protoreflect.ValueOfString(text), err
	case protoreflect.EnumKind:
		text, err := readText(dec)
		if err != nil {
			return protoreflect.Value{}, err
		}
		return readWord(field.Enum(), text)
	}
	raw, err := dec.ReadValue()
	if err != nil {
		return protoreflect.Value{}, errJSON
	}
	text := string(raw)
	switch field.Kind() {
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(bytes.Clone(raw)), nil
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return protoreflect.Value{}, errors.New("neither true nor false")
		}
		return protoreflect.ValueOfBool(text == "true"), nil
	}
	return readNumber(field.Kind(), text)
}

func readWord(enum protoreflect.EnumDescriptor, word string) (protoreflect.Value, error) {
	name := protoreflect.Name(prefixOf(enum) + strings.ToUpper(word))
	value := enum.Values().ByName(name)
	if value == nil || value.Number() == 0 || word != strings.ToLower(word) {
		return protoreflect.Value{}, fmt.Errorf("%q is not a value of %s", word, enum.Name())
	}
	return protoreflect.ValueOfEnum(value.Number()), nil
}

func readNumber(kind protoreflect.Kind, text string) (v protoreflect.Value, err error) {
	var real float64
	var signed int64
	var whole uint64
	switch kind {
	case protoreflect.DoubleKind:
		real, err = strconv.ParseFloat(text, 64)
		v = protoreflect.ValueOfFloat64(real)
	case protoreflect.Int32Kind:
		signed, err = strconv.ParseInt(text, 10, 32)
		v = protoreflect.ValueOfInt32(int32(signed))
	case protoreflect.Int64Kind:
		signed, err = strconv.ParseInt(text, 10, 64)
		v = protoreflect.ValueOfInt64(signed)
	case protoreflect.Uint32Kind:
		whole, err = strconv.ParseUint(text, 10, 32)
		v = protoreflect.ValueOfUint32(uint32(whole))
	case protoreflect.Uint64Kind:
		whole, err = strconv.ParseUint(text, 10, 64)
		v = protoreflect.ValueOfUint64(whole)
	default:
		err = errors.ErrUnsupported
	}
	if err != nil {
		return protoreflect.Value{}, fmt.Errorf("%.40q is not a number that fits", text)
	}
	return v, nil
}
