package pbjson

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

const api = "thoughtgate.v1"

// TestMarshalWritesEveryField checks that each field of every message of the API, and of a
// message with all kinds of fields, is written with its value.
func TestMarshalWritesEveryField(t *testing.T) {
	types := []protoreflect.MessageType{dynamicpb.NewMessageType(allKinds(t))}
	for typ := range protoregistry.GlobalTypes.RangeMessages {
		if typ.Descriptor().ParentFile().Package() == api {
			types = append(types, typ)
		}
	}
	if len(types) < 100 {
		t.Fatalf("only %d messages are registered", len(types))
	}
	slices.SortFunc(types, func(a, b protoreflect.MessageType) int {
		return strings.Compare(string(a.Descriptor().FullName()), string(b.Descriptor().FullName()))
	})
	r := rand.New(rand.NewPCG(1, 2))
	for _, typ := range types {
		for round := range 20 {
			m := typ.New()
			if round > 0 { // the first is empty
				fill(r, m, 0)
			}
			line, err := Marshal(m.Interface())
			if err != nil {
				t.Fatalf("%s: %v", typ.Descriptor().FullName(), err)
			}
			if bytes.ContainsAny(line, "\n\r") {
				t.Errorf("%s: more than a line: %s", typ.Descriptor().FullName(), line)
			}
			check(t, string(typ.Descriptor().Name()), m, parse(t, line))
			if t.Failed() {
				t.Fatalf("%v is written as %s", m.Interface(), line)
			}
		}
	}
}

func parse(t *testing.T, line []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	return v
}

// check compares the parsed JSON with the message.
func check(t *testing.T, path string, m protoreflect.Message, got any) {
	t.Helper()
	switch m := m.Interface().(type) {
	case *timestamppb.Timestamp:
		at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(got))
		if err != nil || !at.Equal(m.AsTime()) || !strings.HasSuffix(fmt.Sprint(got), "Z") {
			t.Errorf("%s: %v, want %v", path, got, m.AsTime())
		}
		return
	case *durationpb.Duration:
		if number, ok := got.(json.Number); !ok || number.String() != strings.TrimSuffix(strconv.FormatFloat(m.AsDuration().Seconds(), 'f', -1, 64), ".0") {
			t.Errorf("%s: %v, want the number %v", path, got, m.AsDuration().Seconds())
		}
		return
	}
	object, ok := got.(map[string]any)
	if fields := m.Descriptor().Fields(); !ok || len(object) != fields.Len() {
		t.Errorf("%s: %v, want an object with %d members", path, got, fields.Len())
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		at := path + "." + string(f.Name())
		member, there := object[string(f.Name())]
		switch v := m.Get(f); {
		case !there:
			t.Errorf("%s is not there", at)
		case f.IsList():
			list, ok := member.([]any)
			if !ok || len(list) != v.List().Len() {
				t.Errorf("%s: %v, want a list of %d", at, member, v.List().Len())
				continue
			}
			for j := range list {
				checkValue(t, fmt.Sprintf("%s[%d]", at, j), f, v.List().Get(j), list[j])
			}
		case f.IsMap():
			members, ok := member.(map[string]any)
			if !ok || len(members) != v.Map().Len() {
				t.Errorf("%s: %v, want an object of %d", at, member, v.Map().Len())
				continue
			}
			for k, v := range v.Map().Range {
				checkValue(t, at+"."+k.String(), f.MapValue(), v, members[k.String()])
			}
		case f.HasPresence() && !m.Has(f):
			if member != nil {
				t.Errorf("%s: %v, want null", at, member)
			}
		default:
			checkValue(t, at, f, v, member)
		}
	}
}

func checkValue(t *testing.T, path string, f protoreflect.FieldDescriptor, v protoreflect.Value, got any) {
	t.Helper()
	var want any
	switch f.Kind() {
	case protoreflect.MessageKind:
		check(t, path, v.Message(), got)
		return
	case protoreflect.BoolKind:
		want = v.Bool()
	case protoreflect.EnumKind:
		want = strconv.Itoa(int(v.Enum()))
		if value := f.Enum().Values().ByNumber(v.Enum()); value != nil {
			if got == "" && v.Enum() == 0 {
				return
			}
			name := strings.ToLower(string(value.Name()))
			if word, ok := got.(string); ok && (strings.HasSuffix(name, "_"+word) || strings.HasSuffix(name, word) || name == "grant_match_arguments" && word == "args") {
				return
			}
		}
	case protoreflect.BytesKind:
		want = hex.EncodeToString(v.Bytes())
		switch write := byteFieldWriters[f.FullName()]; {
		case write == nil:
		case strings.HasSuffix(string(f.FullName()), ".loaded"):
			want = strings.ToValidUTF8(string(v.Bytes()), "\ufffd")
		case strings.HasSuffix(string(f.FullName()), ".journal"), strings.HasSuffix(string(f.FullName()), ".text"), len(v.Bytes()) == 0:
			want = nil
		case json.Valid(v.Bytes()):
			want = parse(t, v.Bytes())
		default:
			want = strings.ToValidUTF8(string(v.Bytes()), "\ufffd")
		}
	case protoreflect.StringKind:
		want = strings.ToValidUTF8(v.String(), "\ufffd")
	case protoreflect.FloatKind, protoreflect.DoubleKind:
		number, ok := got.(json.Number)
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			want = nil
		} else if f, err := number.Float64(); ok && err == nil && f == x {
			return
		}
	default: // an integer: exact, and not a string
		want = json.Number(fmt.Sprint(v.Interface()))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

// fill sets most fields, some of them to hostile values.
func fill(r *rand.Rand, m protoreflect.Message, depth int) {
	switch m := m.Interface().(type) {
	case *timestamppb.Timestamp:
		m.Seconds, m.Nanos = r.Int64N(200_000_000_000)-50_000_000_000, r.Int32N(1_000_000_000)
		return
	case *durationpb.Duration:
		m.Seconds, m.Nanos = r.Int64N(1<<20), 1000*r.Int32N(1_000_000)
		return
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case r.IntN(4) == 0 || depth > 4:
		case f.IsList():
			for range r.IntN(4) {
				m.Mutable(f).List().Append(value(r, f, m.Mutable(f).List().NewElement, depth))
			}
		case f.IsMap():
			for range r.IntN(4) {
				k := value(r, f.MapKey(), nil, depth)
				if f.MapKey().Kind() == protoreflect.StringKind {
					k = protoreflect.ValueOfString(strings.ToValidUTF8(k.String(), "")) // invalid names could become equal
				}
				m.Mutable(f).Map().Set(k.MapKey(), value(r, f.MapValue(), m.Mutable(f).Map().NewValue, depth))
			}
		default:
			m.Set(f, value(r, f, func() protoreflect.Value { return m.NewField(f) }, depth))
		}
	}
}

var (
	texts = []string{"", "plain", "<a href=\"&\">", "\x1b[2J\u202e\u2028\u2029\x00\x7f", "no \xff UTF-8 \xc3", `back\slash`, "🜁 über\n\t"}
	raws  = []string{"", "null", `{"a": 1.50, "b":[1e400, "\u202e"],` + "\n\t" + `"a":2}`, "{", "not JSON \xff", `"text"`, "18446744073709551615"}
)

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func value(r *rand.Rand, f protoreflect.FieldDescriptor, fresh func() protoreflect.Value, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		v := fresh()
		fill(r, v.Message(), depth+1)
		return v
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(r.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(pick(r, protoreflect.EnumNumber(r.IntN(f.Enum().Values().Len())), 99, -1))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(pick(r, raws...)))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(pick(r, texts...))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(pick(r, 0, 1, math.MinInt32, r.Int32()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(pick(r, 0, -1, math.MinInt64, r.Int64()))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(pick(r, 0, 1, math.MaxUint32, r.Uint32()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(pick(r, 0, 1, math.MaxUint64, r.Uint64()))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(pick(r, 0, -1.5, 1e-30, float32(math.NaN()), r.Float32()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(pick(r, 0, 0.1, 1e300, 12_400_000, math.NaN(), math.Inf(1), math.Inf(-1), r.Float64()))
	}
	panic(f.Kind())
}

// allKinds returns a message with fields of each kind: single, optional, in a list, in a oneof
// and in a map.
func allKinds(t *testing.T) protoreflect.MessageDescriptor {
	t.Helper()
	m := &descriptorpb.DescriptorProto{Name: proto.String("All"), OneofDecl: []*descriptorpb.OneofDescriptorProto{{Name: proto.String("one")}}}
	add := func(to *descriptorpb.DescriptorProto, name string, kind descriptorpb.FieldDescriptorProto_Type) *descriptorpb.FieldDescriptorProto {
		f := &descriptorpb.FieldDescriptorProto{
			Name: proto.String(name), Number: proto.Int32(int32(len(to.Field) + 1)), Type: kind.Enum(),
			Label: descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL.Enum(),
		}
		switch kind {
		case descriptorpb.FieldDescriptorProto_TYPE_MESSAGE:
			f.TypeName = proto.String(".test.Inner")
		case descriptorpb.FieldDescriptorProto_TYPE_ENUM:
			f.TypeName = proto.String(".test.Some")
		}
		to.Field = append(to.Field, f)
		return f
	}
	var optional []*descriptorpb.FieldDescriptorProto
	for kind := descriptorpb.FieldDescriptorProto_TYPE_DOUBLE; kind <= descriptorpb.FieldDescriptorProto_TYPE_SINT64; kind++ {
		if kind == descriptorpb.FieldDescriptorProto_TYPE_GROUP {
			continue
		}
		name := strings.ToLower(strings.TrimPrefix(kind.String(), "TYPE_"))
		add(m, "a_"+name, kind)
		add(m, "list_"+name, kind).Label = descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
		if kind != descriptorpb.FieldDescriptorProto_TYPE_MESSAGE {
			f := add(m, "optional_"+name, kind)
			f.Proto3Optional = proto.Bool(true)
			optional = append(optional, f)
		}
		entry := &descriptorpb.DescriptorProto{Name: proto.String("Map" + strings.ToUpper(name[:1]) + name[1:] + "Entry"), Options: &descriptorpb.MessageOptions{MapEntry: proto.Bool(true)}}
		key := descriptorpb.FieldDescriptorProto_TYPE_STRING
		if kind == descriptorpb.FieldDescriptorProto_TYPE_INT64 || kind == descriptorpb.FieldDescriptorProto_TYPE_BOOL {
			key = kind
		}
		add(entry, "key", key)
		add(entry, "value", kind)
		m.NestedType = append(m.NestedType, entry)
		f := add(m, "map_"+name, descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
		f.TypeName, f.Label = proto.String(".test.All."+entry.GetName()), descriptorpb.FieldDescriptorProto_LABEL_REPEATED.Enum()
	}
	for kind := descriptorpb.FieldDescriptorProto_TYPE_DOUBLE; kind <= descriptorpb.FieldDescriptorProto_TYPE_SINT64; kind++ {
		if kind != descriptorpb.FieldDescriptorProto_TYPE_GROUP {
			add(m, "one_"+strings.ToLower(strings.TrimPrefix(kind.String(), "TYPE_")), kind).OneofIndex = proto.Int32(0)
		}
	}
	for _, f := range optional { // each has a oneof of its own, after the others
		f.OneofIndex = proto.Int32(int32(len(m.OneofDecl)))
		m.OneofDecl = append(m.OneofDecl, &descriptorpb.OneofDescriptorProto{Name: proto.String("_" + f.GetName())})
	}
	inner := &descriptorpb.DescriptorProto{Name: proto.String("Inner")}
	add(inner, "text", descriptorpb.FieldDescriptorProto_TYPE_STRING)
	add(inner, "again", descriptorpb.FieldDescriptorProto_TYPE_MESSAGE)
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: proto.String("test.proto"), Package: proto.String("test"), Syntax: proto.String("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{m, inner},
		EnumType: []*descriptorpb.EnumDescriptorProto{{Name: proto.String("Some"), Value: []*descriptorpb.EnumValueDescriptorProto{
			{Name: proto.String("SOME_UNSPECIFIED"), Number: proto.Int32(0)}, {Name: proto.String("SOME_THING"), Number: proto.Int32(1)},
		}}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file.Messages().ByName("All")
}

// JSON from outside is not changed, except that it is put on one line.
func TestMarshalKeepsJSON(t *testing.T) {
	for raw, want := range map[string]string{
		"": "null", "{ \"a\": 1.50,\n \"\\u0061\": 18446744073709551616 }": `{"a":1.50,"\u0061":18446744073709551616}`,
		"{": `"{"`, "<&>": `"<&>"`, "\"\u2028<\"": "\"\u2028<\"", `1 2`: `"1 2"`,
	} {
		line, err := Marshal(&pb.ExtensionTool{Name: "<x>", InputSchema: []byte(raw)})
		if err != nil || string(line) != `{"name":"<x>","description":"","input_schema":`+want+`}` {
			t.Errorf("%q is written as %s, want %s (%v)", raw, line, want, err)
		}
	}
}

// TestMarshalDeepJSON nests JSON as deeply as a decoder accepts, and one level deeper.
// Arguments must never prevent a question from being listed.
func TestMarshalDeepJSON(t *testing.T) {
	for depth, want := range map[int]string{10_000: "[[", 10_001: `"[[`} {
		raw := strings.Repeat("[", depth) + strings.Repeat("]", depth)
		for _, v := range []any{&pb.Approval{Arguments: []byte(raw)}, Object{&pb.Approval{Arguments: []byte(raw)}, own{}}} {
			if line, err := Marshal(v); err != nil || !bytes.Contains(line, []byte(`"arguments":`+want)) {
				t.Errorf("%d deep: %.200s, %v", depth, line, err)
			}
		}
	}
}

// The data that undoes a rewrite contains the file.
func TestMarshalWithholds(t *testing.T) {
	for _, m := range []proto.Message{&pb.ConfigFile{Journal: []byte("s3cret")}, &pb.Protection{Text: []byte("s3cret")}} {
		line, err := Marshal(m)
		if err != nil || bytes.Contains(line, []byte("s3cret")) || bytes.Contains(line, []byte(hex.EncodeToString([]byte("s3cret")))) {
			t.Errorf("%s, %v", line, err)
		}
	}
}

// TestBytesAreDecidedOn fails if a new field of bytes is neither listed here as a digest nor in
// written.
func TestBytesAreDecidedOn(t *testing.T) {
	digests := []protoreflect.FullName{"Approval.subject", "FleetState.log_hash", "Pin.accepted", "Pin.waiting", "ServerStart.digest"}
	notPrinted := []protoreflect.FullName{ // not by this package
		"AuditRecord.line", "AuditRecord.values", "MetricsResponse.text", "ProfileChunk.data",
		"FleetAuditRecord.line", "FleetAuditRecord.values", "FleetQuestion.statement", "FleetQuestion.shown", "ForeignAnswer.statement",
	}
	found := map[protoreflect.FullName]bool{}
	seen := map[protoreflect.FullName]bool{}
	var walk func(d protoreflect.MessageDescriptor)
	walk = func(d protoreflect.MessageDescriptor) {
		if seen[d.FullName()] {
			return
		}
		seen[d.FullName()] = true
		for i := range d.Fields().Len() {
			switch f := d.Fields().Get(i); f.Kind() {
			case protoreflect.BytesKind:
				found[f.FullName()] = true
			case protoreflect.MessageKind:
				walk(f.Message())
			}
		}
	}
	protoregistry.GlobalFiles.RangeFilesByPackage(api, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			s := file.Services().Get(i)
			if s.Name() == "Gate" { // talks only to shims
				continue
			}
			for j := range s.Methods().Len() {
				walk(s.Methods().Get(j).Output())
			}
		}
		return true
	})
	decided := map[protoreflect.FullName]bool{}
	for name := range byteFieldWriters {
		decided[name] = true
	}
	for _, name := range slices.Concat(digests, notPrinted) {
		decided[api+"."+name] = true
	}
	for name := range found {
		if !decided[name] {
			t.Errorf("how is %s written?", name)
		}
	}
	for name := range decided {
		if !found[name] {
			t.Errorf("the daemon answers with no %s", name)
		}
	}
}

func TestWord(t *testing.T) {
	for want, e := range map[string]protoreflect.Enum{
		"": pb.PinReason_PIN_REASON_UNSPECIFIED, "look_alike": pb.PinReason_PIN_REASON_LOOK_ALIKE, "args": pb.GrantMatch_GRANT_MATCH_ARGUMENTS,
		"warning": pb.Severity_SEVERITY_WARNING, "production": pb.Profile_PROFILE_PRODUCTION, "99": pb.Severity(99), "-1": pb.Severity(-1),
	} {
		if got := Word(e); got != want {
			t.Errorf("%v: %q, want %q", e, got, want)
		}
	}
	for name := range words {
		if d, err := protoregistry.GlobalFiles.FindDescriptorByName(name); err != nil {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

type beside struct {
	Last  string   `json:"last"`
	Inner Object   `json:"inner"`
	Many  []Object `json:"many"`
	Maybe string   `json:"maybe,omitempty"`
	Own   *own     `json:"own"`
	Owns  []own    `json:"owns"`
}

type own struct {
	At    time.Time `json:"at"`
	Names []string  `json:"names"`
	No    string    `json:"-"`
}

func TestObject(t *testing.T) {
	line, err := Marshal(Object{&pb.CommandEnd{ExitCode: 3}, beside{Last: "<", Many: []Object{{Message: &pb.UngovernedServer{Server: "s"}}}}})
	want := `{"exit_code":3,"last":"<","inner":null,"many":[{"server":"s","path":"","how":""}],"own":null,"owns":null}`
	if err != nil || string(line) != want {
		t.Errorf("got  %s\nwant %s, %v", line, want, err)
	}
	var none *pb.CommandEnd
	for _, v := range []any{Object{}, none, Object{Message: none}} {
		if line, err := Marshal(v); err != nil || string(line) != "null" {
			t.Errorf("%#v: %s, %v", v, line, err)
		}
	}
}

func TestMembers(t *testing.T) {
	sample := Object{&pb.Session{}, beside{Inner: Object{Message: &pb.Sample{}}, Many: []Object{{&pb.UngovernedServer{}, own{}}}}}
	want := `spec, opened, pid, attached, orphaned, problem, protection, hooks_silent, unseen, ended, remote, last, inner, many, maybe?, own, owns
spec: id, agent, command, project, profile, files, keep, ungoverned, outlasting, tools, left, remotes
spec.files[]: path, journal
spec.ungoverned[]: server, path, how
spec.left[]: server, path, why
spec.remotes[]: server, address, headers, transport, from, helper, login, syntax, own
spec.remotes[].headers[]: name, template, variable, optional
unseen[]: at, session, agent, count, calls, text
inner: name, kind, labels, value, count, buckets
inner.buckets[]: bound, value
many[]: server, path, how, at, names
own: at, names
owns[]: as own
or: id, agent, command, project, profile, files, keep, ungoverned, outlasting, tools, left, remotes
files[]: as spec.files[]
ungoverned[]: as spec.ungoverned[]
left[]: as spec.left[]
remotes[]: as spec.remotes[]`
	if diff := cmp.Diff(strings.Split(want, "\n"), Members(sample, &pb.SessionSpec{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Members lists the members that Marshal writes, in the same order.
func TestMembersAreThoseWritten(t *testing.T) {
	for typ := range protoregistry.GlobalTypes.RangeMessages {
		if typ.Descriptor().ParentFile().Package() != api || typ.Descriptor().Fields().Len() == 0 {
			continue
		}
		line, err := Marshal(typ.New().Interface())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range regexp.MustCompile(`"(\w+)":`).FindAllSubmatch(line, -1) { // nothing in them has members
			names = append(names, string(m[1]))
		}
		if got := Members(typ.New().Interface())[0]; got != strings.Join(names, ", ") {
			t.Errorf("listed:  %s\nwritten: %s", got, strings.Join(names, ", "))
		}
	}
}

func ExampleMarshal() {
	line, err := Marshal(&pb.PresenceState{
		Enrolled: true, Since: timestamppb.New(time.Unix(1764000000, 0)), By: "ana (uid 1000)", Failures: 2, Locked: durationpb.New(90 * time.Second),
	})
	fmt.Printf("%s %v\n", line, err)
	// Output:
	// {"enrolled":true,"since":"2025-11-24T16:00:00Z","by":"ana (uid 1000)","codes":false,"asleep":false,"failures":2,"locked":90,"recovered":null,"recoverer":""} <nil>
}

func ExampleMembers() {
	for _, line := range Members(&pb.PinDiff{}) {
		fmt.Println(line)
	}
	// Output:
	// pin, before, after, changes
	// pin: ref, reason, held, suspicions, accepted, since, decider, waiting, noticed
	// pin.ref: server, launch, kind, name
	// pin.suspicions[]: what, quote, where
	// changes[]: path, grade, before, after, note
}
