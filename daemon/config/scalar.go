package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

var (
	wholeNumber = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)
	fraction    = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)
	variable    = regexp.MustCompile(`\$?\$\{[^}]*\}?`)
	reference   = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^$]*))?\}$`)
)

type worded interface{ words() []string }

// wordsOf returns the words allowed for a value of type t, or nil if any text is.
func wordsOf(t reflect.Type) []string {
	switch w := reflect.Zero(t).Interface().(type) {
	case worded:
		return w.words()
	case interface{ Words() []string }: // types of other packages
		return w.Words()
	}
	return nil
}

func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return true
	}
	return t == reflect.TypeFor[Glob]()
}

// expected describes a value of type t for messages.
func expected(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[Glob]():
		return "a glob"
	case reflect.TypeFor[time.Duration]():
		return "a duration, as 90s or 10m"
	case reflect.TypeFor[Size]():
		return "a size, as 10MiB"
	case reflect.TypeFor[JSON]():
		return "a mapping"
	}
	if words := wordsOf(t); words != nil {
		return list(words)
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Float64:
		return "a number"
	}
	return "text"
}

// scalar decodes a single value.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if !d.is(n, yaml.ScalarNode, v, path) {
		return
	}
	text, expanded, ok := d.expand(n)
	if !ok {
		return
	}
	for _, r := range text {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || r == unicode.ReplacementChar && !utf8.ValidString(text) {
			d.report(n, "", "", "%s contains the unprintable character %U", path, r)
			return
		}
	}
	if isText := v.Kind() == reflect.String && wordsOf(v.Type()) == nil || v.Type() == reflect.TypeFor[Glob](); isText {
		if n.Style == 0 && n.Tag != "!!str" {
			d.report(n, "", fmt.Sprintf("quote it: %q", n.Value), "%s: expected %s, found %s", path, expected(v.Type()), describe(n))
			return
		}
	} else if n.Style != 0 && !expanded && v.Kind() != reflect.String && !quotable(v.Type()) {
		d.report(n, "", "remove the quotes", "%s: expected %s, found text in quotes", path, expected(v.Type()))
		return
	}
	if err := set(v, text); err != nil {
		if expanded { // the value of a variable may be a secret and must not be shown
			d.report(n, err.id, "", "%s: expected %s, but %s has another value", path, expected(v.Type()), n.Value)
			return
		}
		d.report(n, err.id, err.hint, "%s: %s%s", path, err.text, found(n.Value))
		return
	}
	d.bounds(n, v, path, tag)
}

// quotable reports whether a value of the non-text type t may be quoted. With its unit it cannot
// be mistaken for anything else.
func quotable(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Duration]() || t == reflect.TypeFor[Size]()
}

// unfit describes why a value is invalid.
type unfit struct{ id, hint, text string }

// found returns text quoted for a message, or "" if it is too long to help.
func found(text string) string {
	if strings.Contains(text, "\n") || len(text) > 80 {
		return ""
	}
	return fmt.Sprintf(", found %q", text)
}

// set parses text into v.
func set(v reflect.Value, text string) *unfit {
	wrong := &unfit{text: "expected " + expected(v.Type())}
	var read any
	var err error
	switch v.Interface().(type) {
	case Glob:
		wrong.id = "V-009"
		read, err = NewGlob(text)
	case time.Duration:
		read, err = ParseDuration(text)
	case Size:
		read, err = ParseSize(text)
	}
	switch {
	case err != nil:
		wrong.text = err.Error()
		return wrong
	case read != nil:
		v.Set(reflect.ValueOf(read))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		if words := wordsOf(v.Type()); words != nil && !slices.Contains(words, text) {
			if near := Nearest(text, words); near != "" {
				wrong.hint = fmt.Sprintf("did you mean %q?", near)
			}
			return wrong
		}
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return wrong
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if !wholeNumber.MatchString(text) || err != nil || n > math.MaxInt32 {
			return wrong
		}
		v.SetInt(int64(n))
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if !fraction.MatchString(text) || err != nil {
			return wrong
		}
		v.SetFloat(f)
	}
	return nil
}

// bounds checks v against the min and max of its tag.
func (d *decoder) bounds(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	for _, key := range []string{"min", "max"} {
		limit, ok := tag.Lookup(key)
		if !ok {
			continue
		}
		bound := reflect.New(v.Type()).Elem()
		if err := set(bound, limit); err != nil {
			panic("config: " + path + ": " + key + ": " + err.text)
		}
		order := 0
		if v.Kind() == reflect.Float64 {
			order = cmp.Compare(v.Float(), bound.Float())
		} else {
			order = cmp.Compare(v.Int(), bound.Int())
		}
		switch {
		case key == "min" && order < 0:
			d.report(n, tag.Get("id"), "", "%s must be at least %s", path, limit)
		case key == "max" && order > 0 && path == "schema":
			d.report(n, tag.Get("id"), "install the newer ThoughtGate, or write schema: "+limit, "the file is written for a newer ThoughtGate: this one knows the schema up to %s", limit)
		case key == "max" && order > 0:
			d.report(n, tag.Get("id"), "", "%s must be at most %s", path, limit)
		}
	}
}

// expand replaces references to environment variables in the text of n. expanded reports whether
// there were any, ok whether all could be replaced.
func (d *decoder) expand(n *yaml.Node) (text string, expanded, ok bool) {
	ok = true
	text = variable.ReplaceAllStringFunc(n.Value, func(ref string) string {
		if strings.HasPrefix(ref, "$${") {
			return ref[1:]
		}
		expanded = true
		if d.getenv == nil {
			ok = false
			d.report(n, "V-014", "write the value itself; write a literal ${ as $${", "environment variables (%s) are not allowed in this file", ref)
			return ref
		}
		m := reference.FindStringSubmatch(ref)
		if m == nil {
			ok = false
			d.report(n, "V-014", "write ${NAME} or ${NAME:-default}; write a literal ${ as $${", "%q is not a variable", ref)
			return ref
		}
		value := d.getenv(m[1])
		if value == "" {
			if m[2] == "" {
				ok = false
				d.report(n, "V-014", fmt.Sprintf("set it, or write ${%s:-default}", m[1]), "the variable %s is not set", m[1])
			}
			value = m[3]
		}
		d.used[m[1]] = value
		return value
	})
	return text, expanded, ok
}

// Size is a number of bytes.
type Size int64

func (s Size) String() string {
	for _, u := range sizeUnits {
		if s >= Size(u.bytes) && s%Size(u.bytes) == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return "0B"
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseSize parses a whole number of B, KiB, MiB, GiB or TiB.
func ParseSize(text string) (Size, error) {
	digits := len(text) - len(strings.TrimLeft(text, "0123456789"))
	unit := text[digits:]
	n, err := strconv.ParseInt(text[:digits], 10, 64)
	if err != nil {
		if digits > 0 {
			return 0, errors.New("the size is too large")
		}
		return 0, errors.New("write a size as a whole number with a unit, as 10MiB or 2GiB")
	}
	for _, u := range sizeUnits {
		if u.name != unit {
			continue
		}
		if n > math.MaxInt64/u.bytes {
			return 0, errors.New("the size is too large")
		}
		return Size(n * u.bytes), nil
	}
	if unit == "" {
		return 0, errors.New("the size has no unit; write 10MiB or 2GiB")
	}
	return 0, fmt.Errorf("unknown unit %q; write B, KiB, MiB, GiB or TiB", unit)
}

type durationUnit struct {
	name string
	long time.Duration
}

var durationUnits = []durationUnit{{"d", 24 * time.Hour}, {"h", time.Hour}, {"m", time.Minute}, {"s", time.Second}, {"ms", time.Millisecond}}

// ParseDuration parses a duration such as 90s, 10m, 1h30m or 7d: whole numbers of d, h, m, s and
// ms, each unit at most once and larger units first. 0 needs no unit.
func ParseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" {
		return 0, errors.New("write a duration as 90s, 10m, 1h30m or 7d")
	}
	var sum time.Duration
	next := 0 // index of the first unit that may still follow
	for rest := text; rest != ""; {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits == 0 {
			return 0, errors.New("write a duration as 90s, 10m, 1h30m or 7d")
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil {
			return 0, errors.New("the duration is too long")
		}
		rest = rest[digits:]
		letters := len(rest) - len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))
		unit := rest[:letters]
		rest = rest[letters:]
		if unit == "" {
			return 0, errors.New("the duration has no unit; write 90s, 10m, 1h30m or 7d")
		}
		i := slices.IndexFunc(durationUnits, func(u durationUnit) bool { return u.name == unit })
		if i < 0 {
			return 0, fmt.Errorf("unknown unit %q; write d, h, m, s or ms", unit)
		}
		if i < next {
			return 0, errors.New("write each unit of a duration once, the largest first, as 1h30m")
		}
		next = i + 1
		long := durationUnits[i].long
		if n > int64(math.MaxInt64/long) || time.Duration(n)*long > math.MaxInt64-sum {
			return 0, errors.New("the duration is too long")
		}
		sum += time.Duration(n) * long
	}
	return sum, nil
}

// FormatDuration formats d in the syntax of ParseDuration.
func FormatDuration(d time.Duration) string {
	if d < time.Millisecond {
		return "0"
	}
	var b strings.Builder
	for _, u := range durationUnits {
		if n := d / u.long; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, u.name)
			d -= n * u.long
		}
	}
	return b.String()
}
