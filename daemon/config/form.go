package config

import (
	"reflect"
	"slices"
)

// form is a kind of file that the types of this package describe: which of
// their keys and words may stand in it.
type form struct {
	keys    map[reflect.Type][]string // of types that lose some; others keep all
	words   map[reflect.Type][]string // likewise
	why     string                    // a key that is left out is refused: for this reason
	instead string                    // and this is what to do

	defaults func(*Config)  // sets what holds where nothing is written; nil for what always does
	check    func(*checker) // looks for more than all files are checked for; may be nil
}

// whole is a thoughtgate.yaml, in which everything may stand.
var whole = form{}

// fields lists the keys of a struct type that may be written.
func (f form) fields(t reflect.Type) []field {
	all := fields(t)
	keys, some := f.keys[t]
	if !some {
		return all
	}
	return slices.DeleteFunc(all, func(one field) bool { return !slices.Contains(keys, one.key) })
}

// wordsOf returns the words that a value of type t may be, nil for any.
func (f form) wordsOf(t reflect.Type) []string {
	if words, some := f.words[t]; some {
		return words
	}
	return wordsOf(t)
}
