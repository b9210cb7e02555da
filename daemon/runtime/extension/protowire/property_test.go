package protowire

import (
	"bytes"
	"math"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"pgregory.net/rapid"

	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/extension/v1"
)

var inf = math.Inf(1)

// texts are JSON texts, which must be copied unchanged.
var texts = []string{`{}`, `[]`, `null`, `0`, `-1.50e+9`, `"\ud83d"`, "{ \"a\" :\t[ {} ,\n 2 ] }", `{"action":"block"}`, `"` + "\u2028é\U0001F600" + `"`, `true`, `1e400`}

// anyMessage fills m with random valid content.
func anyMessage(t *rapid.T, m protoreflect.Message) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		needed := field.Kind() == protoreflect.EnumKind || m.Descriptor().FullName() == bareMessage
		if !needed && rapid.Bool().Draw(t, "leave out") {
			continue
		}
		switch {
		case field.IsList():
			list := m.Mutable(field).List()
			for range rapid.IntRange(0, 3).Draw(t, "items") {
				if field.Kind() == protoreflect.MessageKind {
					anyMessage(t, list.AppendMutable().Message())
				} else {
					list.Append(anyValue(t, field))
				}
			}
		case field.IsMap():
			for _, key := range rapid.SliceOfDistinct(rapid.String(), rapid.ID).Draw(t, "keys") {
				m.Mutable(field).Map().Set(protoreflect.ValueOfString(key).MapKey(), protoreflect.ValueOfString(rapid.String().Draw(t, "value")))
			}
		case field.Kind() == protoreflect.MessageKind:
			anyMessage(t, m.Mutable(field).Message())
		default:
			m.Set(field, anyValue(t, field))
		}
	}
}

func anyValue(t *rapid.T, field protoreflect.FieldDescriptor) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(rapid.String().Draw(t, "text"))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(rapid.SampledFrom(texts).Draw(t, "json")))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(rapid.Bool().Draw(t, "truth"))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(rapid.IntRange(1, field.Enum().Values().Len()-1).Draw(t, "word")))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Filter(func(f float64) bool { return !math.IsInf(f, 0) && !math.IsNaN(f) }).Draw(t, "number"))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(rapid.Int32().Draw(t, "number"))
	case protoreflect.Int64Kind:
		return protoreflect.ValueOfInt64(rapid.Int64().Draw(t, "number"))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(rapid.Uint32().Draw(t, "number"))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(rapid.Uint64().Draw(t, "number"))
	}
	t.Fatalf("a field that is %s", field.Kind())
	return protoreflect.Value{}
}

// answers reports whether number is the answer to a request.
func answers(number protoreflect.FieldNumber) bool { return isRequest(number - answerTo) }

// TestFramesComeBack tests the property that a decoded frame is encoded again as the same
// bytes.
func TestFramesComeBack(t *testing.T) {
	var numbered []protoreflect.FieldNumber
	for i := range fields.Len() {
		if number := fields.Get(i).Number(); methods[number] != "" || answers(number) {
			numbered = append(numbered, number)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var f pb.Frame
		number := rapid.SampledFrom(numbered).Draw(t, "field")
		own := rapid.Uint64Range(1, math.MaxInt64>>8).Draw(t, "own number") << 8
		if isRequest(number) {
			f.Id = own | uint64(number)
		} else if answers(number) {
			f.Id = own | uint64(number-answerTo)
		}
		anyMessage(t, f.ProtoReflect().Mutable(fields.ByNumber(number)).Message())
		frame, err := proto.MarshalOptions{Deterministic: true}.Marshal(&f)
		if err != nil {
			t.Fatal(err)
		}
		var m rpc.Message
		if err := (Dialect{}).Decode(frame, &m); err != nil {
			t.Fatalf("%v: %v", &f, err)
		}
		if back := again(t, frame, &m); !bytes.Equal(back, frame) {
			t.Fatalf("came back as\n%x\nwas\n%x", back, frame)
		}
	})
}

// again encodes what was decoded from frame, as its sender would: the sender knows a request by
// its own number, and an answer by the id of the frame.
func again(t interface {
	Helper()
	Fatalf(string, ...any)
}, frame []byte, m *rpc.Message) []byte {
	t.Helper()
	var f pb.Frame
	if err := proto.Unmarshal(frame, &f); err != nil {
		t.Fatalf("%x: %v", frame, err)
	}
	back := *m
	switch m.Kind {
	case wire.Request:
		back.ID = Dialect{}.NewID(f.Id >> 8)
	case wire.Result, wire.Error:
		back.ID = Dialect{}.NewID(f.Id)
	}
	written, err := Dialect{}.Append(nil, &back)
	if err != nil {
		t.Fatalf("%s %q: %v", m.Kind, m.Body, err)
	}
	return written
}

// FuzzDecode checks that what is accepted can be encoded again without a change.
func FuzzDecode(f *testing.F) {
	for _, s := range conversation {
		m := s.message()
		frame, err := Dialect{}.Append(nil, &m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	for _, m := range []rpc.Message{
		{Kind: wire.Error, ID: "1293", Fault: &rpc.Fault{Code: -1, Message: "x", Data: []byte("1")}},
		{Kind: wire.Notification, Cancels: "1293"},
	} {
		frame, err := Dialect{}.Append(nil, &m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		before := bytes.Clone(frame)
		var m, back rpc.Message
		err := Dialect{}.Decode(frame, &m)
		if !bytes.Equal(frame, before) {
			t.Fatal("the frame was changed")
		}
		if err != nil {
			return
		}
		written := again(t, frame, &m)
		if err := (Dialect{}).Decode(written, &back); err != nil {
			t.Fatalf("%x, written as %x: %v", frame, written, err)
		}
		if m.Kind != back.Kind || m.ID != back.ID || m.Method != back.Method || m.Cancels != back.Cancels || !bytes.Equal(m.Body, back.Body) {
			t.Fatalf("read %+v, then %+v", m, back)
		}
		if m.Fault != nil && (m.Fault.Code != back.Fault.Code || m.Fault.Message != back.Fault.Message || !bytes.Equal(m.Fault.Data, back.Fault.Data)) {
			t.Fatalf("read %+v, then %+v", m.Fault, back.Fault)
		}
	})
}
