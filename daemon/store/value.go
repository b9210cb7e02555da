package store

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// value stores a value in a column as an S, a type that SQL has.
type value[S any] struct {
	get func() (S, error)
	set func(S) error // NULL is the zero S
}

// Value implements driver.Valuer.
func (v value[S]) Value() (driver.Value, error) { return v.get() }

// Scan implements sql.Scanner.
func (v value[S]) Scan(from any) error {
	s, ok := from.(S)
	if !ok && from != nil {
		return fmt.Errorf("got %T, want %T: %w", from, s, gate.ErrInvalid)
	}
	return v.set(s)
}

// stamp stores a time as microseconds since the Unix epoch; the zero time as 0.
func stamp(t *time.Time) value[int64] {
	get := func() (int64, error) {
		if t.IsZero() {
			return 0, nil
		}
		return t.UnixMicro(), nil
	}
	return value[int64]{get, func(n int64) error {
		*t = time.Time{}
		if n != 0 {
			*t = time.UnixMicro(n).UTC()
		}
		return nil
	}}
}

// bits stores a number that may need the sign bit of an INTEGER.
func bits(u *uint64) value[int64] {
	return value[int64]{
		get: func() (int64, error) { return int64(*u), nil },
		set: func(n int64) error { *u = uint64(n); return nil },
	}
}

// text stores bytes in a TEXT column. An empty text is read as nil.
func text(b *[]byte) value[string] {
	return value[string]{
		get: func() (string, error) { return string(*b), nil },
		set: func(s string) error { *b = append([]byte(nil), s...); return nil },
	}
}

// jsonText stores the value that to points to as JSON. An empty text leaves the value
// unchanged.
func jsonText(to any) value[string] {
	get := func() (string, error) {
		raw, err := json.Marshal(to)
		return string(raw), err
	}
	return value[string]{get, func(s string) error {
		if s == "" {
			return nil
		}
		return json.Unmarshal([]byte(s), to)
	}}
}

// blob stores bytes in a column that must not be NULL; nil would be.
func blob(b *[]byte) value[[]byte] {
	return value[[]byte]{
		get: func() ([]byte, error) { return append([]byte{}, *b...), nil },
		set: func(raw []byte) error { *b = slices.Clone(raw); return nil },
	}
}

// digests stores SHA-256 sums, concatenated.
func digests(sums ...*[32]byte) value[[]byte] {
	get := func() (raw []byte, err error) {
		for _, sum := range sums {
			raw = append(raw, sum[:]...)
		}
		return raw, nil
	}
	return value[[]byte]{get, func(raw []byte) error {
		if len(raw) != len(sums)*32 {
			return fmt.Errorf("got %d bytes, want %d: %w", len(raw), len(sums)*32, gate.ErrInvalid)
		}
		for i, sum := range sums {
			copy(sum[:], raw[i*32:])
		}
		return nil
	}}
}

// optionalDigests stores digests; NULL if all are zero.
func optionalDigests(sums ...*[32]byte) value[[]byte] {
	v := digests(sums...)
	get, set := v.get, v.set
	v.get = func() ([]byte, error) {
		if slices.ContainsFunc(sums, func(sum *[32]byte) bool { return *sum != [32]byte{} }) {
			return get()
		}
		return nil, nil
	}
	v.set = func(raw []byte) error {
		if raw == nil {
			return nil
		}
		return set(raw)
	}
	return v
}

// id stores an id, which is a prefix and a number, as that number. An empty id is NULL;
// the database then chooses the number of an added row.
type id struct {
	prefix string
	name   *string
}

// Value implements driver.Valuer.
func (i id) Value() (driver.Value, error) {
	if n := parseID(i.prefix, *i.name); n != 0 {
		return n, nil
	}
	return nil, nil
}

// Scan implements sql.Scanner.
func (i id) Scan(from any) error {
	n, ok := from.(int64)
	if !ok {
		return fmt.Errorf("got %T, want a number: %w", from, gate.ErrInvalid)
	}
	*i.name = formatID(i.prefix, n)
	return nil
}

// parseID returns the number in name; 0 if name is invalid.
func parseID(prefix, name string) int64 {
	n, err := strconv.ParseInt(strings.TrimPrefix(name, prefix), 10, 64)
	if err != nil || n < 0 || formatID(prefix, n) != name {
		return 0
	}
	return n
}

func formatID(prefix string, n int64) string { return prefix + strconv.FormatInt(n, 10) }
