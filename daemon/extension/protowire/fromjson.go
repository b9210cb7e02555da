package protowire

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// readMessage fills m from text, an object, or what the message is whole.
func readMessage(text []byte, m protoreflect.Message) error {
	if !utf8.Valid(text) {
		return errJSON
	}
	if m.Descriptor().FullName() == whole {
		if err := checkJSON(text); err != nil {
			return err
		}
		m.Set(m.Descriptor().Fields().Get(0), protoreflect.ValueOfBytes(text))
		return nil
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), loose) // which it reads in place
	if err := readObject(dec, m); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errJSON
	}
	return nil
}

// each calls read before every member or element of the object or array that dec
// stands before.
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
			return fmt.Errorf("a member %q, which the protobuf wire does not have", name.String())
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

// readMap reads an object whose members are strings.
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

// readText reads a string. What is no Unicode has no place in protobuf.
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
		return "", errors.New("a string that is not Unicode")
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
		return protoreflect.Value{}, fmt.Errorf("%q is no %s", word, enum.Name())
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
