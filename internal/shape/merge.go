package shape

import "strings"

// either returns the union of a and b.
func (r *reader) either(a, b valued) valued {
	switch {
	case a.none:
		return valued{shape: b.shape, null: true, none: b.none}
	case b.none:
		return valued{shape: a.shape, null: true}
	}
	return valued{shape: r.eitherShape(a.shape, b.shape), null: a.null || b.null}
}

// both returns the intersection of a and b.
func (r *reader) both(a, b valued) valued {
	switch {
	case a.none:
		return a
	case b.none:
		return b
	}
	return valued{shape: r.bothShape(a.shape, b.shape), null: a.null && b.null}
}

// eitherShape returns the union of two shapes. nil stands for Any.
func (r *reader) eitherShape(a, b *Shape) *Shape {
	if r.full() || a == nil || b == nil {
		return &Shape{}
	}
	s := &Shape{Kind: wider(a.Kind, b.Kind)}
	switch s.Kind {
	case List:
		s.Items = r.eitherShape(a.Items, b.Items)
	case Object:
		s.Members = r.joined(a.Members, b.Members, func(x, y Member, inX, inY bool) Member {
			switch {
			case !inX:
				return Member{y.Name, false, r.orRest(y.Shape, a.Rest)}
			case !inY:
				return Member{x.Name, false, r.orRest(x.Shape, b.Rest)}
			}
			return Member{x.Name, x.Required && y.Required, r.eitherShape(x.Shape, y.Shape)}
		})
		switch {
		case a.Rest == nil:
			s.Rest = b.Rest
		case b.Rest == nil:
			s.Rest = a.Rest
		default:
			s.Rest = r.eitherShape(a.Rest, b.Rest)
		}
	}
	return s
}

// orRest returns the shape of a member that the other object knows only by its Rest, or not at
// all.
func (r *reader) orRest(s, rest *Shape) *Shape {
	if rest == nil {
		return s
	}
	return r.eitherShape(s, rest)
}

// bothShape returns the intersection of two shapes. nil stands for Any. Shapes that exclude each
// other give Any: no value fits both, so it does not matter.
func (r *reader) bothShape(a, b *Shape) *Shape {
	switch {
	case r.full():
		return &Shape{}
	case b == nil || b.Kind == Any:
		if a == nil {
			return &Shape{}
		}
		return a
	case a == nil || a.Kind == Any:
		return b
	}
	s := &Shape{Kind: wider(a.Kind, b.Kind)}
	if s.Kind == Number && a.Kind != b.Kind {
		s.Kind = Integer
	}
	switch s.Kind {
	case List:
		s.Items = r.bothShape(a.Items, b.Items)
	case Object:
		s.Members = r.joined(a.Members, b.Members, func(x, y Member, inX, inY bool) Member {
			switch {
			case !inX:
				return y
			case !inY:
				return x
			}
			return Member{x.Name, x.Required || y.Required, r.bothShape(x.Shape, y.Shape)}
		})
		if a.Rest != nil && b.Rest != nil {
			s.Rest = r.bothShape(a.Rest, b.Rest)
		}
	}
	return s
}

// joined merges two sorted lists of members. It calls join for each name, with both members where
// both lists have the name.
func (r *reader) joined(a, b []Member, join func(x, y Member, inX, inY bool) Member) []Member {
	var all []Member
	for (len(a) > 0 || len(b) > 0) && !r.full() {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = strings.Compare(a[0].Name, b[0].Name)
		}
		switch {
		case order < 0:
			all = append(all, join(a[0], Member{}, true, false))
			a = a[1:]
		case order > 0:
			all = append(all, join(Member{}, b[0], false, true))
			b = b[1:]
		default:
			all = append(all, join(a[0], b[0], true, true))
			a, b = a[1:], b[1:]
		}
	}
	return all
}
