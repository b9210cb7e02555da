package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cedar-policy/cedar-go"

	"github.com/thoughtgate/thoughtgated/internal/shape"
)

// What a policy was checked against must be what it is evaluated with. So the
// arguments of a call get the types that their shape says before they are looked
// at: of what the shape calls a number, 5 and 5.5 are both decimals. An argument
// that a policy at hand looks at and that doesn't fit is an error.

// fit gives to args the types that takes says, where policies look.
func fit(args cedar.Record, takes *shape.Shape, policies candidates) (cedar.Record, error) {
	if takes == nil {
		return args, nil
	}
	for _, b := range policies {
		for _, p := range b.policies {
			for _, seen := range p.arguments {
				fitted, _, err := fitRecord(args, takes, seen, "")
				if err != nil {
					return args, fmt.Errorf("policy %s looks at what does not fit the tool's input schema: %w", p.named(), err)
				}
				args = fitted
			}
		}
	}
	return args, nil
}

// fitRecord fits the members of r that are looked at; nil looks at all of them.
// The second result is false when nothing had to be changed.
func fitRecord(r cedar.Record, s *shape.Shape, seen *access, path string) (cedar.Record, bool, error) {
	var changed cedar.RecordMap
	one := func(m shape.Member) error {
		value, there := r.Get(cedar.String(m.Name))
		if !there {
			if m.Required {
				return fmt.Errorf("the argument %q is missing", join(path, m.Name))
			}
			return nil
		}
		fitted, differs, err := fitValue(value, m.Shape, seen.at(m.Name), join(path, m.Name))
		if err != nil || !differs {
			return err
		}
		if changed == nil {
			changed = r.Map()
		}
		changed[cedar.String(m.Name)] = fitted
		return nil
	}
	if seen == nil || seen.whole {
		for _, m := range s.Members {
			if err := one(m); err != nil {
				return r, false, err
			}
		}
		if s.Rest != nil {
			for name := range r.Keys() {
				if m, _ := s.Member(string(name)); !m.Required && m.Shape == s.Rest {
					if err := one(m); err != nil {
						return r, false, err
					}
				}
			}
		}
	}
	for _, name := range seen.names() {
		if m, ok := s.Member(name); ok {
			if err := one(m); err != nil {
				return r, false, err
			}
		}
	}
	if changed == nil {
		return r, false, nil
	}
	return cedar.NewRecord(changed), true, nil
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// fitValue fits one value, of which seen says what is looked at.
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
	return v, false, fmt.Errorf("the argument %q is %s and should be %s", path, valueKind(v), shapeKind(s.Kind))
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

// toLong makes an integer of v: JSON Schema counts 5.0 among them.
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

// valueKind names what a value is to a person who knows JSON.
func valueKind(v cedar.Value) string {
	switch v.(type) {
	case cedar.String:
		return "a text, or a number that is too large or too fine for Cedar"
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
		return "a text"
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
