package policy

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// Limits of the arguments that policies read. Cedar keeps arrays as sets with a weak hash. The
// author of the arguments can make elements collide, so that each is compared with every other.
// The limits bound the time for that to a tenth of a second.
const (
	maxDepth    = 100    // levels of objects and arrays
	maxValues   = 16_384 // values of any kind
	maxItems    = 4_096  // items of an array
	maxCompound = 512    // objects and arrays among the items of an array
)

// errTooLarge reports arguments beyond the limits. Errors wrap it.
var errTooLarge = errors.New("the arguments are too large for policies")

// convert converts the JSON object raw, which may be nil, to Cedar records. In args, strings and
// booleans keep their types, and integers become Long. Other numbers become decimal if four
// digits after the point are exact; otherwise, like integers beyond 64 bits, they become their
// text. Arrays become sets, objects become records, and null is omitted. lists holds only the
// arrays, each as its JSON text without blanks, which preserves the order; it is empty unless
// withLists is set. Members of raw for which wanted returns false are skipped, and limits do not
// apply to them. A nil wanted wants all.
func convert(raw []byte, withLists bool, wanted func(name string) bool) (args, lists cedar.Record, err error) {
	if raw == nil {
		return cedar.Record{}, cedar.Record{}, nil
	}
	c := converter{raw: raw, dec: jsontext.NewDecoder(bytes.NewBuffer(raw)), lists: withLists, wanted: wanted}
	tok, err := c.next()
	if err != nil {
		return args, lists, err
	}
	if tok.Kind() != '{' {
		return args, lists, errors.New("the arguments are not an object")
	}
	return c.object(1)
}

type converter struct {
	raw    []byte
	dec    *jsontext.Decoder
	lists  bool // convert arrays to text, too
	wanted func(name string) bool
	values int
}

// next reads a token and counts it.
func (c *converter) next() (jsontext.Token, error) {
	tok, err := c.dec.ReadToken()
	if err != nil {
		return tok, fmt.Errorf("read the arguments: %w", err)
	}
	if c.values++; c.values > 2*maxValues { // a member is two tokens
		return tok, fmt.Errorf("%w: more than %d values", errTooLarge, maxValues)
	}
	return tok, nil
}

// object reads an object after its opening brace. lists holds the arrays in it.
func (c *converter) object(depth int) (members, lists cedar.Record, err error) {
	if depth > maxDepth {
		return cedar.Record{}, cedar.Record{}, fmt.Errorf("%w: more than %d levels", errTooLarge, maxDepth)
	}
	values, texts := cedar.RecordMap{}, cedar.RecordMap{}
	for {
		tok, err := c.next()
		if err != nil {
			return cedar.Record{}, cedar.Record{}, err
		}
		if tok.Kind() == '}' {
			return cedar.NewRecord(values), cedar.NewRecord(texts), nil
		}
		name := tok.String()
		if depth == 1 && c.wanted != nil && !c.wanted(name) {
			if err := c.dec.SkipValue(); err != nil {
				return cedar.Record{}, cedar.Record{}, fmt.Errorf("read the arguments: %w", err)
			}
			continue
		}
		value, list, err := c.value(depth)
		if err != nil {
			return cedar.Record{}, cedar.Record{}, err
		}
		if value != nil {
			values[cedar.String(name)] = value
		}
		if list != nil {
			texts[cedar.String(name)] = list
		}
	}
}

// array reads an array after its opening bracket and returns it as a set.
func (c *converter) array(depth int) (cedar.Set, error) {
	if depth > maxDepth {
		return cedar.Set{}, fmt.Errorf("%w: more than %d levels", errTooLarge, maxDepth)
	}
	var items []cedar.Value
	compound := 0
	for c.dec.PeekKind() != ']' {
		if k := c.dec.PeekKind(); k == '{' || k == '[' {
			compound++
		}
		item, _, err := c.value(depth)
		if err != nil {
			return cedar.Set{}, err
		}
		if item != nil {
			items = append(items, item)
		}
		if len(items) > maxItems || compound > maxCompound {
			return cedar.Set{}, fmt.Errorf("%w: an array of more than %d items, or %d that are objects or arrays", errTooLarge, maxItems, maxCompound)
		}
	}
	if _, err := c.next(); err != nil {
		return cedar.Set{}, err
	}
	return cedar.NewSet(items...), nil
}

// value reads a value at the given depth. list is its value in lists, or nil.
func (c *converter) value(depth int) (value, list cedar.Value, err error) {
	tok, err := c.next()
	if err != nil {
		return nil, nil, err
	}
	switch tok.Kind() {
	case '{':
		record, lists, err := c.object(depth + 1)
		if lists.Len() > 0 {
			list = lists
		}
		return record, list, err
	case '[':
		start, withLists := c.dec.InputOffset()-1, c.lists
		c.lists = false // only the outermost array becomes text
		set, err := c.array(depth + 1)
		if c.lists = withLists; c.lists && err == nil {
			text := jsontext.Value(bytes.Clone(c.raw[start:c.dec.InputOffset()]))
			err = text.Format() // strings in their shortest form
			list = cedar.String(text)
		}
		return set, list, err
	case '"':
		return cedar.String(tok.String()), nil, nil
	case '0':
		return number(tok.String()), nil, nil
	case 't', 'f':
		return cedar.Boolean(tok.Bool()), nil, nil
	case 'n':
		return nil, nil, nil
	}
	return nil, nil, fmt.Errorf("read the arguments: unexpected %v", tok.Kind())
}

// number converts a JSON number.
func number(s string) cedar.Value {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return cedar.Long(n)
		}
		return cedar.String(s)
	}
	if d, ok := decimal(s); ok {
		return d
	}
	return cedar.String(s)
}

// decimal converts a number with a fraction or an exponent if the result is exact.
func decimal(s string) (cedar.Decimal, bool) {
	mantissa, exponent := s, 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e < -1000 || e > 1000 {
			return cedar.Decimal{}, false
		}
		mantissa, exponent = s[:i], e
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+frac, "0")
	exponent += 4 + len(whole) - len(digits) // in units of 1/10000
	if strings.Trim(digits, "-0") == "" {
		digits, exponent = "0", 0
	}
	if exponent < 0 || exponent > 19 {
		return cedar.Decimal{}, false
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", exponent), 10, 64)
	if err != nil || n == math.MinInt64 {
		return cedar.Decimal{}, false
	}
	d, err := cedar.NewDecimal(n, -4)
	return d, err == nil
}

// fit converts the arguments that policies read to the types of takes: where takes has a number,
// both 5 and 5.5 become decimals. So a policy is evaluated on the types against which it was
// checked. It fails if an argument that is read does not fit.
func fit(args cedar.Record, takes *shape.Shape, policies candidates) (cedar.Record, error) {
	if takes == nil {
		return args, nil
	}
	for _, b := range policies {
		for _, p := range b.policies {
			for _, seen := range p.arguments {
				fitted, _, err := fitRecord(args, takes, seen, "")
				if err != nil {
					return args, fmt.Errorf("policy %s reads an argument that does not fit the tool's input schema: %w", p.title(), err)
				}
				args = fitted
			}
		}
	}
	return args, nil
}

// fitRecord fits the members of r that are read; a nil access reads all. The second result
// reports whether a value was changed.
func fitRecord(r cedar.Record, s *shape.Shape, seen *access, path string) (cedar.Record, bool, error) {
	names := seen.names()
	if seen == nil || seen.whole {
		names = append(s.Names(), names...)
		for name := range r.Keys() {
			names = append(names, string(name)) // includes members that only s.Rest describes
		}
	}
	var changed cedar.RecordMap
	for _, name := range names {
		m, ok := s.Member(name)
		value, there := r.Get(cedar.String(name))
		switch {
		case !ok:
			continue
		case !there && m.Required:
			return r, false, fmt.Errorf("the argument %q is missing", joinPath(path, name))
		case !there:
			continue
		}
		fitted, differs, err := fitValue(value, m.Shape, seen.at(name), joinPath(path, name))
		if err != nil {
			return r, false, err
		}
		if differs {
			if changed == nil {
				changed = r.Map()
			}
			changed[cedar.String(name)] = fitted
		}
	}
	if changed == nil {
		return r, false, nil
	}
	return cedar.NewRecord(changed), true, nil
}

func joinPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fitValue fits a single value. The second result reports whether it was changed.
func fitValue(v cedar.Value, s *shape.Shape, seen *access, path string) (cedar.Value, bool, error) {
	if s == nil {
		return v, false, nil
	}
	switch s.Kind {
	case shape.Any:
		return v, false, nil
	case shape.Text:
		if _, ok := v.(cedar.String); ok {
			return v, false, nil
		}
	case shape.Bool:
		if _, ok := v.(cedar.Boolean); ok {
			return v, false, nil
		}
	case shape.Integer:
		if n, differs, ok := toLong(v); ok {
			return n, differs, nil
		}
	case shape.Number:
		if d, differs, ok := toDecimal(v); ok {
			return d, differs, nil
		}
	case shape.List:
		if set, ok := v.(cedar.Set); ok {
			return fitSet(set, s.Items, path)
		}
	case shape.Object:
		if r, ok := v.(cedar.Record); ok {
			return fitRecord(r, s, seen, path)
		}
	}
	return v, false, fmt.Errorf("the argument %q is %s, expected %s", path, valueKind(v), shapeKind(s.Kind))
}

func fitSet(set cedar.Set, items *shape.Shape, path string) (cedar.Value, bool, error) {
	if items == nil || items.Kind == shape.Any {
		return set, false, nil
	}
	var fitted []cedar.Value
	differs := false
	for v := range set.All() {
		item, changed, err := fitValue(v, items, nil, path+"[]")
		if err != nil {
			return set, false, err
		}
		fitted, differs = append(fitted, item), differs || changed
	}
	if !differs {
		return set, false, nil
	}
	return cedar.NewSet(fitted...), true, nil
}

// toLong converts v to an integer. In JSON Schema, 5.0 is one.
func toLong(v cedar.Value) (n cedar.Value, differs, ok bool) {
	switch v := v.(type) {
	case cedar.Long:
		return v, false, true
	case cedar.Decimal:
		if whole, isWhole := strings.CutSuffix(v.String(), ".0"); isWhole {
			n, err := strconv.ParseInt(whole, 10, 64)
			return cedar.Long(n), true, err == nil
		}
	}
	return v, false, false
}

func toDecimal(v cedar.Value) (d cedar.Value, differs, ok bool) {
	switch v := v.(type) {
	case cedar.Decimal:
		return v, false, true
	case cedar.Long:
		d, err := cedar.NewDecimal(int64(v), 0)
		return d, true, err == nil
	}
	return v, false, false
}

// valueKind names the kind of a value in terms of JSON.
func valueKind(v cedar.Value) string {
	switch v.(type) {
	case cedar.String:
		return "a string, or a number that is too large or too precise for Cedar"
	case cedar.Boolean:
		return "true or false"
	case cedar.Long, cedar.Decimal:
		return "a number"
	case cedar.Set:
		return "a list"
	}
	return "an object"
}

func shapeKind(k shape.Kind) string {
	switch k {
	case shape.Text:
		return "a string"
	case shape.Bool:
		return "true or false"
	case shape.Integer:
		return "an integer"
	case shape.Number:
		return "a number with at most four digits after the point"
	case shape.List:
		return "a list"
	}
	return "an object"
}
