// Package pbjson writes the messages of the daemon's API as the JSON that tgctl
// prints with --json, and lists their members for --help. It has no knowledge of
// a message but its descriptor, so whoever has read the .proto files knows the
// output:
//
//   - A member has the name of its field, and is always there. A message, or a field
//     of a oneof, that is not set is null; a list or a map without elements is [] or {}.
//   - Integers are numbers, those of 64 bits too. A float that is no number, or
//     infinite, is null.
//   - An enum is the word that the command line shows and takes, see [Word].
//   - A Timestamp is a string as RFC 3339 has it, in UTC. A Duration is a number: seconds.
//   - Bytes are hex digits, but for the fields that [written] lists: JSON that an
//     agent or a server has written stays as it was written.
//
// protojson differs in most of that: it writes 64-bit integers as strings, enums as
// the constants of the API and bytes in base64, and its spacing changes from build to
// build.
//
// What tgctl adds to a message is a struct beside it, see [Object].
package pbjson

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Object is a message with the members of More, a struct with json tags, behind its
// own. It can be a member of a struct, where it is null without a message.
type Object struct {
	Message proto.Message
	More    any // nil for none
}

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	if o.Message == nil || !o.Message.ProtoReflect().IsValid() {
		return []byte("null"), nil
	}
	line := appendMessage(nil, o.Message.ProtoReflect())
	if o.More == nil {
		return line, nil
	}
	more, err := Marshal(o.More)
	if err != nil {
		return nil, err
	}
	return slices.Concat(line[:len(line)-1], []byte(","), more[1:]), nil
}

// Marshal returns v as one line: a message, an [Object], or a struct with json tags.
func Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case proto.Message:
		return Object{Message: v}.MarshalJSON()
	case Object: // as it is: the encoder refuses JSON that is nested too deeply, as an agent may have written it
		return v.MarshalJSON()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// written says how bytes are written that are no digest.
var written = map[protoreflect.FullName]func(b, value []byte) []byte{
	"thoughtgate.v1.Approval.arguments":         appendJSON,
	"thoughtgate.v1.ExtensionTool.input_schema": appendJSON,
	"thoughtgate.v1.PinChange.before":           appendJSON,
	"thoughtgate.v1.PinChange.after":            appendJSON,
	"thoughtgate.v1.PinDiff.before":             appendJSON,
	"thoughtgate.v1.PinDiff.after":              appendJSON,
	"thoughtgate.v1.RunEnded.result":            appendJSON,
	"thoughtgate.v1.RunUpdate.raw":              appendJSON,
	"thoughtgate.v1.PolicyFile.loaded":          appendText[[]byte],
	"thoughtgate.v1.ConfigFile.journal":         withhold, // has what the file has, keys and tokens too
	"thoughtgate.v1.Protection.text":            withhold, // likewise
}

func withhold(b, _ []byte) []byte { return append(b, "null"...) }

// appendJSON appends JSON as it was written, on one line. None is null, and what is
// no JSON is a string.
func appendJSON(b, raw []byte) []byte {
	if len(raw) == 0 {
		return append(b, "null"...)
	}
	line := bytes.NewBuffer(b)
	if json.Compact(line, raw) != nil {
		return appendText(b, raw)
	}
	return line.Bytes()
}

// appendText appends a string. What is no UTF-8 in it becomes U+FFFD, which is all
// that the error of AppendQuote would say.
func appendText[T []byte | string](b []byte, text T) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	return b
}

func appendMessage(b []byte, m protoreflect.Message) []byte {
	switch m := m.Interface().(type) {
	case *timestamppb.Timestamp:
		return append(m.AsTime().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	case *durationpb.Duration:
		return appendFloat(b, m.AsDuration().Seconds())
	}
	b = append(b, '{')
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		b = append(appendText(comma(b, i), string(f.Name())), ':')
		switch v := m.Get(f); {
		case f.IsList():
			b = append(b, '[')
			for j := range v.List().Len() {
				b = appendValue(comma(b, j), f, v.List().Get(j))
			}
			b = append(b, ']')
		case f.IsMap():
			b = appendMap(b, f, v.Map())
		case f.HasPresence() && !m.Has(f):
			b = append(b, "null"...)
		default:
			b = appendValue(b, f, v)
		}
	}
	return append(b, '}')
}

// comma appends what stands before element i.
func comma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

// appendMap appends a map as an object whose members are sorted.
func appendMap(b []byte, f protoreflect.FieldDescriptor, m protoreflect.Map) []byte {
	values := map[string]protoreflect.Value{}
	for k, v := range m.Range {
		values[k.String()] = v
	}
	b = append(b, '{')
	for i, k := range slices.Sorted(maps.Keys(values)) {
		b = appendValue(append(appendText(comma(b, i), k), ':'), f.MapValue(), values[k])
	}
	return append(b, '}')
}

// appendValue appends one value of a field.
func appendValue(b []byte, f protoreflect.FieldDescriptor, v protoreflect.Value) []byte {
	switch v := v.Interface().(type) {
	case bool:
		return strconv.AppendBool(b, v)
	case int32, int64:
		return strconv.AppendInt(b, protoreflect.ValueOf(v).Int(), 10)
	case uint32, uint64:
		return strconv.AppendUint(b, protoreflect.ValueOf(v).Uint(), 10)
	case float32:
		return appendFloat(b, float64(v))
	case float64:
		return appendFloat(b, v)
	case protoreflect.EnumNumber:
		return appendText(b, word(f.Enum(), v))
	case []byte:
		if write := written[f.FullName()]; write != nil {
			return write(b, v)
		}
		return append(hex.AppendEncode(append(b, '"'), v), '"')
	case protoreflect.Message:
		return appendMessage(b, v)
	}
	return appendText(b, v.String())
}

func appendFloat(b []byte, f float64) []byte {
	number, err := json.Marshal(f)
	if err != nil { // not a number, or infinite
		return append(b, "null"...)
	}
	return append(b, number...)
}

// words are those of enum values that have another name in the API.
var words = map[protoreflect.FullName]string{"thoughtgate.v1.GRANT_MATCH_ARGUMENTS": "args"}

// Word is the word for an enum value: its name in lower case, without that of the
// enum. A value that is unspecified is "", and one that this program does not know
// is its number.
func Word(e protoreflect.Enum) string { return word(e.Descriptor(), e.Number()) }

func word(d protoreflect.EnumDescriptor, n protoreflect.EnumNumber) string {
	prefix, _ := strings.CutSuffix(string(d.Values().Get(0).Name()), "UNSPECIFIED")
	v := d.Values().ByNumber(n)
	switch {
	case v == nil:
		return strconv.Itoa(int(n))
	case n == 0:
		return ""
	case words[v.FullName()] != "":
		return words[v.FullName()]
	}
	return strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
}
