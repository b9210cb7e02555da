package pbjson

import (
	"reflect"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// Members lists the members of what [Marshal] writes of values like samples. The
// first line names those of the object itself, and each further line those of an
// object in it, behind the path that leads there:
//
//	id, state, spec, tools
//	spec: project, files
//	spec.files[]: path
//
// [] stands for any element and {} for any member of a map; a ? follows what may be
// left out. The line of each further sample begins with "or: ".
func Members(samples ...any) []string {
	l := &lister{at: map[any]string{}}
	for i, sample := range samples {
		l.list(strings.Repeat("or", min(i, 1)), "", sample)
	}
	return l.lines
}

type lister struct {
	lines []string
	at    map[any]string // by type: where its members are listed
}

// member is a member of an object. Inner is what an object in it is like: a message
// descriptor, an [Object] or a struct; nil where there is none.
type member struct {
	name, suffix string
	inner        any
}

// list adds the line for what is like sample, titled title, and then those of the
// objects in it, whose paths begin with path.
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

// keyOf tells types apart.
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
	if d.ParentFile().Package() == "google.protobuf" { // is written as a number or a string
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
			if value.Len() == 0 { // an Object says only with a value what it is like
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
