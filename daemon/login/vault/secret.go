package vault

import "log/slog"

// hidden is what prints in place of a secret.
const hidden = "[secret]"

// Secret is text that nothing prints: neither fmt with any verb, also as a member that is not exported,
// nor a log, nor JSON. The zero value is an absent secret.
type Secret struct {
	text *string // behind a pointer, since fmt prints members that are not exported without asking their methods
}

// NewSecret returns text as a secret.
func NewSecret(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{&text}
}

// Reveal returns the text, for what must have it: a request to its own server.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.text == nil }

// Equal reports whether two secrets are the same.
func (s Secret) Equal(other Secret) bool { return s.Reveal() == other.Reveal() }

func (Secret) String() string { return hidden }

// GoString says nothing.
func (Secret) GoString() string { return hidden }

// MarshalText says nothing, also as a key of a map.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// MarshalJSON says nothing.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + hidden + `"`), nil }

// LogValue says nothing.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }
