// Package pbjson writes the messages of the daemon's API as the JSON that tgctl prints with
// --json, and lists their members for --help. It uses only the message descriptors, so the
// .proto files describe the output:
//
//   - A member has the name of its field and is always present. An unset message, or an
//     unset field of a oneof, is null. An empty list is [] and an empty map is {}.
//   - Integers are numbers, also those of 64 bits. NaN and infinite floats are null.
//   - An enum is the word that the command line shows and accepts, see [Word].
//   - A Timestamp is an RFC 3339 string in UTC. A Duration is a number of seconds.
//   - Bytes are hex digits, except for the fields in [byteFieldWriters]. JSON that an agent or a
//     server wrote is not changed, only put on one line.
//
// protojson differs in most of that: it writes 64-bit integers as strings, enums as the
// constants of the API and bytes in base64, and its spacing changes from build to build.
//
// tgctl adds members to a message with [Object].
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

// Object is a message followed by additional members. If Message is nil, Object is null as
// JSON.
type Object struct {
	Message proto.Message
	More    any // a struct with json tags, or nil
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

// Marshal returns v as one line of JSON. v is a message, an [Object], or a struct with json
// tags.
func Marshal(v any) ([]byte, error) {
	switch v := v.(type) {
	case proto.Message:
		return Object{Message: v}.MarshalJSON()
	case Object: // not through the encoder, which refuses deeply nested JSON; an agent may send such JSON
		return v.MarshalJSON()
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// byteFieldWriters maps fields to the functions that write their bytes. Other fields are written in hex.
var byteFieldWriters = map[protoreflect.FullName]func(b, value []byte) []byte{
	"thoughtgate.v1.Approval.arguments":         appendJSON,
	"thoughtgate.v1.ExtensionTool.input_schema": appendJSON,
	"thoughtgate.v1.PinChange.before":           appendJSON,
	"thoughtgate.v1.PinChange.after":            appendJSON,
	"thoughtgate.v1.PinDiff.before":             appendJSON,
	"thoughtgate.v1.PinDiff.after":              appendJSON,
	"thoughtgate.v1.RunEnded.result":            appendJSON,
	"thoughtgate.v1.PastVerdict.shown":          appendJSON,
	"thoughtgate.v1.RunUpdate.raw":              appendJSON,
	"thoughtgate.v1.PolicyFile.loaded":          appendText[[]byte],
	"thoughtgate.v1.ConfigFile.journal":         withhold, // has the file's content, including keys and tokens
	"thoughtgate.v1.Protection.text":            withhold, // likewise
}

func withhold(b, _ []byte) []byte { return append(b, "null"...) }

// appendJSON appends raw on one line. Empty raw becomes null; invalid JSON becomes a string.
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

// appendText appends a JSON string. Invalid UTF-8 becomes U+FFFD. The error of AppendQuote
// reports only that, so it is ignored.
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

// comma appends a comma, except before element 0.
func comma(b []byte, i int) []byte {
	if i == 0 {
		return b
	}
	return append(b, ',')
}

// appendMap appends a map as an object with sorted members.
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

// appendValue appends one value of the field f.
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
		if write := byteFieldWriters[f.FullName()]; write != nil {
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
	if err != nil { // NaN or infinite
		return append(b, "null"...)
	}
	return append(b, number...)
}

// words maps enum values to words that differ from their names in the API.
var words = map[protoreflect.FullName]string{"thoughtgate.v1.GRANT_MATCH_ARGUMENTS": "args"}

// Word returns the word for an enum value: its name in lower case, without the enum's prefix.
// The unspecified value is "". A value that this program does not know is its number.
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
