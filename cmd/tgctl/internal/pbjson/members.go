package pbjson

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Members lists the JSON members that [Marshal] writes for values like samples. The first line
// has the members of the object itself. Each further line has those of a nested object, after
// the path to it:
//
//	id, state, spec, tools
//	spec: project, files
//	spec.files[]: path
//
// [] stands for any element of a list and {} for any member of a map. A ? marks a member
// that may be absent. The line of each further sample begins with "or: ".
func Members(samples ...any) []string {
	l := &lister{at: map[any]string{}}
	for i, sample := range samples {
		l.list(strings.Repeat("or", min(i, 1)), "", sample)
	}
	return l.lines
}

type lister struct {
	lines []string
	at    map[any]string // path of the first listing, by type
}

// member is one member of an object. If it is an object itself, inner is a sample of it: a
// message descriptor, an [Object] or a struct. Otherwise inner has no members.
type member struct {
	name, suffix string
	inner        any
}

// list adds a line for sample, labelled title, and then the lines of its nested objects. path
// is the prefix of their paths.
func (l *lister) list(title, path string, sample any) {
	all := membersOf(sample)
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.name
	}
	line := strings.Join(names, ", ")
	if title != "" {
		line = title + ": " + line
	}
	l.lines = append(l.lines, line)
	for _, m := range all {
		at, key := path+strings.TrimSuffix(m.name, "?")+m.suffix, keyOf(m.inner)
		switch first, listed := l.at[key]; {
		case len(membersOf(m.inner)) == 0:
		case listed:
			l.lines = append(l.lines, at+": as "+first)
		default:
			l.at[key] = at
			l.list(at, at+".", m.inner)
		}
	}
}

// keyOf returns a key that identifies the type of sample.
func keyOf(sample any) any {
	switch sample := sample.(type) {
	case Object:
		return [2]any{keyOf(sample.Message), reflect.TypeOf(sample.More)}
	case proto.Message:
		return sample.ProtoReflect().Descriptor().FullName()
	case protoreflect.MessageDescriptor:
		return sample.FullName()
	}
	return reflect.TypeOf(sample)
}

func membersOf(sample any) []member {
	switch sample := sample.(type) {
	case nil:
		return nil
	case Object:
		return append(membersOf(sample.Message), membersOf(sample.More)...)
	case proto.Message:
		return membersOf(sample.ProtoReflect().Descriptor())
	case protoreflect.MessageDescriptor:
		return membersOfMessage(sample)
	}
	return membersOfStruct(reflect.ValueOf(sample))
}

func membersOfMessage(d protoreflect.MessageDescriptor) []member {
	if d.ParentFile().Package() == "google.protobuf" { // written as a number or a string
		return nil
	}
	var all []member
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		m := member{name: string(f.Name())}
		switch {
		case f.IsMap():
			m.suffix, f = "{}", f.MapValue()
		case f.IsList():
			m.suffix = "[]"
		}
		if inner := f.Message(); inner != nil {
			m.inner = inner
		}
		all = append(all, m)
	}
	return all
}

func membersOfStruct(v reflect.Value) []member {
	if v.Kind() != reflect.Struct {
		return nil
	}
	var all []member
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		m := member{name: name}
		if options == "omitempty" {
			m.name += "?"
		}
		value := v.FieldByIndex(f.Index)
		switch value.Kind() {
		case reflect.Slice:
			m.suffix = "[]"
			if value.Len() == 0 { // only an Object in the slice shows which message it holds
				value = reflect.MakeSlice(value.Type(), 1, 1)
			}
			value = value.Index(0)
		case reflect.Pointer:
			value = reflect.Zero(value.Type().Elem())
		}
		m.inner = value.Interface()
		all = append(all, m)
	}
	return all
}
