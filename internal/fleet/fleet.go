// Package fleet defines what travels between the machines of a fleet: the token by which a
// machine joins, the subjects of the engine, the bundle of a policy, the statement that a
// decision signs, and what a machine says of itself. It knows nothing of the engine's
// protocol.
//
// Every format is JSON in one form: a text is valid only if it is, byte for byte, what this
// package would write for the value read from it. So no two readers can read it differently,
// and a signature over the text is a signature over the value.
package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
)

// maxName is the maximum length of the name of a fleet, a group or an approver.
const maxName = 63

var (
	names   = regexp.MustCompile(`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`)
	devices = regexp.MustCompile(`^U[A-Z2-7]{55}$`)
	hashes  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	ids     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
)

// CheckName returns an error unless name can be that of a fleet, a group or an approver:
// lower-case letters, digits, and within them - and _.
func CheckName(name string) error {
	if len(name) > maxName || !names.MatchString(name) {
		return fmt.Errorf("%.80q is not a name: use lower-case letters, digits, - and _, at most %d", name, maxName)
	}
	return nil
}

// CheckDevice returns an error unless device has the form of the public key of a device, an
// NKEY of a user.
func CheckDevice(device string) error {
	if !devices.MatchString(device) {
		return fmt.Errorf("%.80q is not the public key of a device", device)
	}
	return nil
}

// CheckID returns an error unless id has the form of the id of a log or a question.
func CheckID(id string) error {
	if !ids.MatchString(id) {
		return fmt.Errorf("%.80q is not an id", id)
	}
	return nil
}

// CheckHash returns an error unless text is a SHA-256 in hexadecimal.
func CheckHash(text string) error {
	if !hashes.MatchString(text) {
		return fmt.Errorf("%.80q is not a SHA-256 in hexadecimal", text)
	}
	return nil
}

var errForm = errors.New("it does not have the one form that this format has")

// Encode returns the one text of v, which must hold only texts, numbers, booleans, lists and structs.
func Encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("fleet: encode: " + err.Error()) // see above
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Decode reads text, of at most limit bytes, into v, and returns an error unless text is the
// one text of v.
func Decode(text []byte, limit int, v any) error {
	if len(text) > limit {
		return fmt.Errorf("it has %d bytes; the maximum is %d", len(text), limit)
	}
	if json.Unmarshal(text, v) != nil || !bytes.Equal(Encode(v), text) {
		return errForm
	}
	return nil
}
