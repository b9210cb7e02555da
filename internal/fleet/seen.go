package fleet

import (
	"cmp"
	"fmt"
)

// Seen is what a device says of itself. Who reads the stream of its records compares it with
// them: a log that ends before its head was not sent whole.
type Seen struct {
	V         int    `json:"v"` // SeenVersion
	Device    string `json:"device"`
	At        int64  `json:"at"` // Unix time, by the device's clock
	Build     string `json:"build"`
	Group     string `json:"group"`
	Mode      Mode   `json:"mode"`
	Bundle    uint64 `json:"bundle"`    // version of the bundle in force; 0 if there is none
	Digest    string `json:"digest"`    // hex SHA-256 of the bundle; empty if there is none
	Timestamp uint64 `json:"timestamp"` // version of the newest verified timestamp metadata
	Root      uint64 `json:"root"`      // version of the root metadata
	Failure   string `json:"failure"`   // why the last policy was refused; empty if it was not
	Log       string `json:"log"`       // id of the audit log
	Seq       uint64 `json:"seq"`       // of its last record
	Head      string `json:"head"`      // hex SHA-256 of that record's line
	Fork      string `json:"fork"`      // which record of the stream the courier found to differ from the log; empty if none
	Pending   uint32 `json:"pending"`   // questions that wait for a colleague
	Left      bool   `json:"left"`      // the device has left the fleet
}

// SeenVersion is the version of the form of Seen.
const SeenVersion = 1

const maxSeen = 8 << 10

// Encode returns the text of s.
func (s *Seen) Encode() []byte { return Encode(s) }

// ParseSeen parses what a device says of itself. Its texts are the device's.
func ParseSeen(text []byte) (*Seen, error) {
	s := &Seen{}
	if err := Decode(text, maxSeen, s); err != nil {
		return nil, fmt.Errorf("what a device says of itself: %w", err)
	}
	err := cmp.Or(CheckDevice(s.Device), CheckName(s.Group))
	if s.Digest != "" {
		err = cmp.Or(err, CheckHash(s.Digest))
	}
	if s.Log != "" || s.Seq > 0 {
		err = cmp.Or(err, CheckID(s.Log), CheckHash(s.Head))
	}
	if err == nil && s.V != SeenVersion {
		err = fmt.Errorf("version %d; this program knows version %d; update it", s.V, SeenVersion)
	}
	if err != nil {
		return nil, fmt.Errorf("what a device says of itself: %w", err)
	}
	return s, nil
}
