package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Mode says what the policy of a fleet does with the user's own.
type Mode string

const (
	ModeFloor Mode = "floor" // both are asked, and the stricter verdict is in force
	ModeFull  Mode = "full"  // the fleet's is in force alone
)

// Role says what a member may do on the engine.
type Role string

const (
	RoleDevice   Role = "device"   // sends records, asks, and gets policies
	RoleApprover Role = "approver" // also answers the questions of other devices
)

// Token is what an administrator gives to a user who is to join. A fleet has an engine, or an address
// from which its policy comes. Nobody there takes a secret, so such a token is none.
type Token struct {
	V      int      `json:"v"`                // TokenVersion
	Fleet  string   `json:"fleet"`            // the name of the organization's fleet
	Engine []string `json:"engine,omitempty"` // addresses, tls or wss
	Policy string   `json:"policy,omitempty"` // the address of a folder with the policy, https
	OTLP   string   `json:"otlp,omitempty"`   // with Policy: the address that records go to, https
	CA     string   `json:"ca,omitempty"`     // SHA-256 of the authority's certificate, if the system does not know it
	Root   string   `json:"root"`             // hex SHA-256 of the first root metadata
	Group  string   `json:"group"`
	Mode   Mode     `json:"mode"`
	Role   Role     `json:"role"`
	Until  int64    `json:"until"`            // Unix time at which the engine no longer takes it; 0 without an engine
	Secret string   `json:"secret,omitempty"` // which the engine takes once
}

// TokenVersion is the version of the form of a token.
const TokenVersion = 1

const (
	tokenPrefix  = "tgfleet1-"
	maxToken     = 8 << 10 // of the line
	maxEngines   = 9
	maxAddress   = 256
	checksumSize = 4
)

var secrets = regexp.MustCompile(`^[A-Za-z0-9_.=-]{16}[A-Za-z0-9_.=-]*$`)

// ErrToken is the error of a text that is no token.
var ErrToken = errors.New("it is not a token of a fleet; paste the whole line that your administrator gave you")

// String returns the token as one line, which a person can paste.
func (t *Token) String() string {
	text := Encode(t)
	return tokenPrefix + base64.RawURLEncoding.EncodeToString(append(text, checksum(text)...))
}

// checksum returns the bytes by which a token that was cut or mistyped is noticed.
func checksum(text []byte) []byte {
	sum := sha256.Sum256(text)
	return sum[:checksumSize]
}

// ParseToken parses the line of a token. White space around it is ignored. Errors never
// contain a part of the text, since it is secret.
func ParseToken(line string) (*Token, error) {
	line = strings.TrimSpace(line)
	rest, ok := strings.CutPrefix(line, tokenPrefix)
	if !ok || len(line) > maxToken {
		return nil, ErrToken
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(rest)
	if err != nil || len(raw) < checksumSize || strings.ContainsAny(rest, "\r\n") {
		return nil, ErrToken
	}
	text, sum := raw[:len(raw)-checksumSize], raw[len(raw)-checksumSize:]
	if string(checksum(text)) != string(sum) {
		return nil, fmt.Errorf("the token is incomplete or was changed: %w", ErrToken)
	}
	t := &Token{}
	if err := Decode(text, maxToken, t); err != nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	if err := t.check(); err != nil {
		return nil, fmt.Errorf("the token: %w", err)
	}
	return t, nil
}

func (t *Token) check() error {
	switch {
	case t.V != TokenVersion:
		return fmt.Errorf("version %d; this program knows version %d; update it", t.V, TokenVersion)
	case t.Mode != ModeFloor && t.Mode != ModeFull:
		return errors.New("the mode is neither floor nor full")
	case t.Role != RoleDevice && t.Role != RoleApprover:
		return errors.New("the role is neither device nor approver")
	case t.Until < 0:
		return errors.New("it has expired before it began")
	case t.Policy != "" && (t.Secret != "" || t.Until != 0 || t.Role != RoleDevice):
		return errors.New("without an engine there is no secret, no end, and no approver")
	case t.Policy == "" && !secrets.MatchString(t.Secret):
		return errors.New("the secret is malformed")
	case t.CA != "" && CheckHash(t.CA) != nil:
		return errors.New("the digest of the authority is malformed")
	}
	return cmp.Or(CheckName(t.Fleet), CheckName(t.Group), CheckHash(t.Root), CheckPlaces(t.Engine, t.Policy, t.OTLP))
}

// CheckPlaces returns an error unless a machine has an engine, or gets its policy from an address and
// sends its records to another one, or to none.
func CheckPlaces(engine []string, policy, otlp string) error {
	switch {
	case policy == "" && otlp == "":
		return CheckEngine(engine)
	case policy == "" || len(engine) > 0:
		return errors.New("a fleet has an engine, or an address of its policy, and only with the latter one for records")
	case !strings.HasSuffix(policy, "/"):
		return fmt.Errorf("%.80q is not the address of a folder: it must end in /", policy)
	case otlp == "":
		return checkURL(policy)
	}
	return cmp.Or(checkURL(policy), checkURL(otlp))
}

// checkURL returns an error unless address is one of https, with a host and a path, and nothing that
// names a user, a query or a fragment.
func checkURL(address string) error {
	u, err := url.Parse(address)
	if err != nil || len(address) > maxAddress || u.Scheme != "https" || u.Hostname() == "" || address != (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String() {
		return fmt.Errorf("%.80q is not an address, as https://HOST/PATH", address)
	}
	return nil
}

// CheckEngine returns an error unless addresses are those of an engine: tls or wss, with a
// host, and nothing that names a user, a path or a query.
func CheckEngine(addresses []string) error {
	if len(addresses) == 0 || len(addresses) > maxEngines {
		return fmt.Errorf("there must be one address of the engine, or up to %d", maxEngines)
	}
	for _, address := range addresses {
		u, err := url.Parse(address)
		if err != nil || len(address) > maxAddress || (u.Scheme != "tls" && u.Scheme != "wss") || u.Hostname() == "" || u.String() != (&url.URL{Scheme: u.Scheme, Host: u.Host}).String() {
			return fmt.Errorf("%.80q is not the address of an engine, as tls://HOST:PORT or wss://HOST:PORT", address)
		}
	}
	return nil
}
