package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
)

// Bundle is the policy of a group. Which bundle may be in force says its TUF metadata; a
// bundle by itself has no authority.
type Bundle struct {
	V         int        `json:"v"` // BundleVersion
	Fleet     string     `json:"fleet"`
	Group     string     `json:"group"`
	Mode      Mode       `json:"mode"`                // of the group; a machine takes no bundle of another mode than it joined with
	Version   uint64     `json:"version"`             // of this bundle; each has a higher one than the one before
	Rules     string     `json:"rules,omitempty"`     // the text of a thoughtgate.yaml
	Cedar     []File     `json:"cedar,omitempty"`     // Cedar policies
	Approvers []Approver `json:"approvers,omitempty"` // those who may answer questions of the group
	Values    Values     `json:"values"`              // what leaves of a call besides its record
	Overflow  Overflow   `json:"overflow"`            // what happens when the log is full of records that were not sent
}

// File is a named text of a bundle.
type File struct {
	Name string `json:"name"` // shown to people, such as base.cedar
	Text string `json:"text"`
}

// Approver may answer questions of other devices.
type Approver struct {
	Name    string   `json:"name"`
	SSH     string   `json:"ssh"`               // public key, as in authorized_keys, without a comment
	Age     string   `json:"age"`               // recipient to whom questions are sealed
	Devices []string `json:"devices,omitempty"` // the approver's own machines, whose questions they don't answer
}

// Owns reports whether the device is the approver's own.
func (a *Approver) Owns(device string) bool { return slices.Contains(a.Devices, device) }

// Values says what leaves of a call besides its record.
type Values string

const (
	ValuesNone     Values = "none"
	ValuesPreviews Values = "previews" // the values that the log stores, if the user has agreed to it
)

// Overflow says what happens to a new record when the log has reached its size with records
// that were not sent.
type Overflow string

const (
	OverflowRefuse Overflow = "refuse" // production denies the call
	OverflowDrop   Overflow = "drop"   // the oldest records are removed, and that is recorded
)

const (
	// BundleVersion is the version of the form of a bundle.
	BundleVersion = 1
	// MaxBundle is the maximum size of a bundle in bytes.
	MaxBundle = 1 << 20
	// MaxApprovers is the maximum number of approvers of a group.
	MaxApprovers = 256

	maxFiles      = 64
	maxOwnDevices = 16
)

var (
	recipients = regexp.MustCompile(`^age1[02-9ac-hj-np-z]{58}$`)
	fileNames  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

// Encode returns the text of b.
func (b *Bundle) Encode() []byte { return Encode(b) }

// BundlePath is the path of the target that has the policy of a group.
func BundlePath(group string) string { return group + "/bundle.json" }

// Digest returns the hex SHA-256 by which a text is named: a bundle, root metadata, a certificate.
func Digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// ParseBundle parses the text of a bundle. It checks neither the rules nor the Cedar policies.
func ParseBundle(text []byte) (*Bundle, error) {
	b := &Bundle{}
	if err := Decode(text, MaxBundle, b); err != nil {
		return nil, fmt.Errorf("the bundle: %w", err)
	}
	if err := b.Check(); err != nil {
		return nil, fmt.Errorf("the bundle: %w", err)
	}
	return b, nil
}

// Check returns an error if a member of b is not valid, apart from rules and policies.
func (b *Bundle) Check() error {
	switch {
	case b.V != BundleVersion:
		return fmt.Errorf("it has version %d of its form; this program knows version %d; update it", b.V, BundleVersion)
	case b.Version == 0:
		return errors.New("it has no version")
	case b.Mode != ModeFloor && b.Mode != ModeFull:
		return fmt.Errorf("mode is %.80q; use floor or full", b.Mode)
	case b.Values != ValuesNone && b.Values != ValuesPreviews:
		return fmt.Errorf("values is %.80q; use none or previews", b.Values)
	case b.Overflow != OverflowRefuse && b.Overflow != OverflowDrop:
		return fmt.Errorf("overflow is %.80q; use refuse or drop", b.Overflow)
	case len(b.Cedar) > maxFiles:
		return fmt.Errorf("it has %d Cedar files; the maximum is %d", len(b.Cedar), maxFiles)
	}
	if err := cmp.Or(CheckName(b.Fleet), CheckName(b.Group)); err != nil {
		return err
	}
	named := map[string]bool{}
	for _, f := range b.Cedar {
		if !fileNames.MatchString(f.Name) || named[f.Name] {
			return fmt.Errorf("%.80q is not the name of a Cedar file, or the name of two", f.Name)
		}
		named[f.Name] = true
	}
	return b.checkApprovers()
}

// checkApprovers also refuses two approvers with one key, since a decision by one could
// then count as one by the other.
func (b *Bundle) checkApprovers() error {
	if len(b.Approvers) > MaxApprovers {
		return fmt.Errorf("it has %d approvers; the maximum is %d", len(b.Approvers), MaxApprovers)
	}
	seen := map[string]bool{}
	for _, a := range b.Approvers {
		if err := CheckName(a.Name); err != nil {
			return fmt.Errorf("approver: %w", err)
		}
		key, err := ParseKey(a.SSH)
		if err != nil {
			return fmt.Errorf("approver %s: %w", a.Name, err)
		}
		switch {
		case key.String() != a.SSH:
			return fmt.Errorf("approver %s: the key must be written as %q", a.Name, key)
		case !recipients.MatchString(a.Age):
			return fmt.Errorf("approver %s: %.80q is not a recipient of age", a.Name, a.Age)
		case seen["name "+a.Name], seen["key "+a.SSH]:
			return fmt.Errorf("approver %s: its name or its key is there twice", a.Name)
		case len(a.Devices) > maxOwnDevices || slices.ContainsFunc(a.Devices, func(d string) bool { return CheckDevice(d) != nil }):
			return fmt.Errorf("approver %s: there are more than %d devices, or one is malformed", a.Name, maxOwnDevices)
		}
		seen["name "+a.Name], seen["key "+a.SSH] = true, true
	}
	return nil
}
