package config

import "reflect"

// Marks says where in a file each value was written.
type Marks map[any]Place

// Place returns where the value was written that field points to, which must be
// a pointer into what was decoded; the zero Place when it was not written.
func (m Marks) Place(field any) Place { return m[field] }

// Decode reads text, the one document of the YAML file at path, into the struct
// that into points to, as strictly as a configuration is read: by the tags yaml,
// need, min, max and one of its fields, with all that is wrong in the end, sorted
// by place. Types say more of themselves by methods: Defaults() is called before
// the keys of a struct are read, and Words() []string lists what a text may be.
// Variables of the environment can't stand in such a file.
func Decode(path string, text []byte, into any) (Marks, []Diagnostic) {
	root, ds := document(path, text)
	if ds != nil {
		return nil, ds
	}
	d := &decoder{file: path, marks: map[any]Place{}, used: map[string]string{}}
	d.value(root, reflect.ValueOf(into).Elem(), theFile, "")
	Sort(d.found)
	return d.marks, d.found
}
