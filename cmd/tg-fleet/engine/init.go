// Package engine configures the engine of a fleet, a stock NATS server, and enrols devices.
//
// A folder holds all of it. Its folder server goes to the machine of the engine; the rest
// are keys, which stay with those who run the fleet.
package engine

import (
	"bytes"
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/thoughtgate/thoughtgated/internal/fleet"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// Options say what Init writes.
type Options struct {
	Fleet  string   // the name of the organization's fleet
	Engine []string // addresses of the engine's machines, one or three, as tls://HOST:PORT or wss://HOST:PORT
	At     string   // where the folder server will be on those machines; empty: where it is
}

const (
	serverDir = "server"
	keysDir   = "keys"
)

// Init writes the configuration of a new engine into a folder, which must be empty.
func Init(dir string, o Options) error {
	if err := cmp.Or(fleet.CheckName(o.Fleet), fleet.CheckEngine(o.Engine)); err != nil {
		return err
	}
	if len(o.Engine) != 1 && len(o.Engine) != 3 {
		return fmt.Errorf("an engine has one or three machines, not %d", len(o.Engine))
	}
	if there, err := os.ReadDir(dir); err == nil && len(there) > 0 {
		return fmt.Errorf("%s is not empty; name a new folder", dir)
	}
	if o.At != "" && !filepath.IsAbs(o.At) {
		return fmt.Errorf("%q is no absolute path, and the server is started from anywhere", o.At)
	}
	var nodes []node
	for _, address := range o.Engine {
		u, err := url.Parse(address)
		if err != nil {
			return err
		}
		n := node{u.Hostname(), cmp.Or(u.Port(), defaultPort[u.Scheme]), u.Scheme == "wss"}
		switch {
		case len(nodes) > 0 && n.web != nodes[0].web:
			return errors.New("devices come to all machines of an engine over tls, or to all over wss")
		case n.web && n.port == plainPort, len(o.Engine) > 1 && n.port == clusterPort:
			return fmt.Errorf("%s: the server needs port %s for itself", address, n.port)
		}
		nodes = append(nodes, n)
	}
	for _, sub := range []string{keysDir, serverDir + "/tls"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	if o.At == "" {
		at, err := filepath.Abs(filepath.Join(dir, serverDir))
		if err != nil {
			return err
		}
		o.At = at
	}
	trust, err := writeAccounts(dir, o.Fleet)
	if err != nil {
		return fmt.Errorf("write the accounts: %w", err)
	}
	if err := writeCertificates(dir, nodes); err != nil {
		return fmt.Errorf("write the certificates: %w", err)
	}
	for i := range nodes {
		if err := writeConfig(dir, i, nodes, o, trust); err != nil {
			return fmt.Errorf("write the configuration of the server: %w", err)
		}
	}
	return writeSettings(dir, o)
}

// A node is a machine of the engine.
type node struct {
	host, port string
	web        bool // devices come over WebSocket
}

var defaultPort = map[string]string{"tls": "4222", "wss": "443"}

// clusterPort is where the nodes find each other, and plainPort where the server listens
// for its own protocol if devices come over WebSocket. Both speak TLS.
const clusterPort, plainPort = "6222", "4222"

// trust is what the server's configuration has of the accounts.
type trust struct {
	Operator, System string
	Accounts         map[string]string // JWTs by public key
	Guest            string            // the JWT of devices before their enrolment
}

// writeAccounts makes the keys of the operator, of the accounts and of the roles.
func writeAccounts(dir, name string) (trust, error) {
	t := trust{Accounts: map[string]string{}}
	operator, err := newKey(dir, "operator", nkeys.CreateOperator)
	if err != nil {
		return t, err
	}
	accounts := map[string]*jwt.AccountClaims{}
	for _, name := range []string{core, edge, door, sys} {
		key, err := newKey(dir, "account-"+name, nkeys.CreateAccount)
		if err != nil {
			return t, err
		}
		accounts[name] = jwt.NewAccountClaims(public(key))
		accounts[name].Name = name
	}
	limits := &accounts[core].Limits
	limits.DiskStorage, limits.Streams, limits.Consumer = jwt.NoLimit, jwt.NoLimit, jwt.NoLimit
	share(accounts)
	for _, r := range roles() {
		key, err := newKey(dir, "role-"+r.name, nkeys.CreateAccount)
		if err != nil {
			return t, err
		}
		scope, err := r.scope(key)
		if err != nil {
			return t, err
		}
		accounts[r.account].SigningKeys.AddScopedSigner(scope)
	}
	for name, account := range accounts {
		if t.Accounts[account.Subject], err = signAccount(dir, account, operator); err != nil {
			return t, fmt.Errorf("account %s: %w", name, err)
		}
	}
	claims := jwt.NewOperatorClaims(public(operator))
	claims.Name, claims.SystemAccount = name, accounts[sys].Subject
	if t.Operator, err = claims.Encode(operator); err != nil {
		return t, err
	}
	t.System = accounts[sys].Subject
	return t, writeUsers(dir, &t)
}

// share lets EDGE and DOOR use what CORE exports to them.
func share(accounts map[string]*jwt.AccountClaims) {
	for _, e := range exports() {
		out := &jwt.Export{Name: e.subject, Subject: jwt.Subject(e.subject), Type: e.kind}
		if e.kind == jwt.Service {
			out.ResponseType = jwt.ResponseTypeSingleton
			out.ResponseThreshold = 10 * time.Second
		}
		if e.many {
			out.ResponseType = jwt.ResponseTypeStream
		}
		accounts[core].Exports.Add(out)
		in := jwt.Import{Name: e.subject, Subject: out.Subject, Account: accounts[core].Subject, Type: e.kind}
		accounts[edge].Imports.Add(&in)
		if e.door {
			same := in
			accounts[door].Imports.Add(&same)
		}
	}
}

// writeUsers makes the credentials of those who run the engine, and the JWT of guests.
func writeUsers(dir string, t *trust) error {
	for _, name := range []string{Admin, Issuer, Reader} {
		if err := writeCredentials(dir, name); err != nil {
			return err
		}
	}
	signer, err := readKey(dir, "role-"+guest)
	if err != nil {
		return err
	}
	key, err := nkeys.CreateUser() // nobody needs its private half
	if err != nil {
		return err
	}
	t.Guest, err = signUser(dir, signer, door, public(key), Grant{Name: guest}, time.Time{})
	if err != nil {
		return err
	}
	return writeSystemUser(dir)
}

func signAccount(dir string, account *jwt.AccountClaims, operator nkeys.KeyPair) (string, error) {
	token, err := account.Encode(operator)
	if err != nil {
		return "", err
	}
	var results jwt.ValidationResults
	account.Validate(&results)
	if results.IsBlocking(true) {
		return "", errors.Join(results.Errors()...)
	}
	return token, os.WriteFile(filepath.Join(dir, keysDir, "account-"+account.Name+".jwt"), []byte(token), 0o600)
}

var configText = template.Must(template.New("").Parse(`# Written by tg-fleet for the engine of the fleet {{.Fleet}}: a stock nats-server.
server_name: {{.Name}}
listen: "{{.Listen}}"
max_payload: 1MB
max_connections: 64K
write_deadline: "10s"
ping_interval: "1m"

tls {
	cert_file: "{{.At}}/tls/{{.Name}}.pem"
	key_file: "{{.At}}/tls/{{.Name}}.key"
	min_version: "1.3"
	# To a server that starts a whole fleet comes back.
	timeout: 30
}
{{if .Web}}
websocket {
	listen: "{{.Web}}"
	tls {
		cert_file: "{{.At}}/tls/{{.Name}}.pem"
		key_file: "{{.At}}/tls/{{.Name}}.key"
	}
}
{{end}}
jetstream {
	store_dir: "{{.At}}/store"
	# An acknowledged record is on the disk.
	sync_interval: always
}
{{if .Routes}}
cluster {
	name: {{.Fleet}}
	listen: "{{.Cluster}}"
	routes: [{{range .Routes}}
		"nats-route://{{.}}"{{end}}
	]
	tls {
		cert_file: "{{.At}}/tls/{{.Name}}.pem"
		key_file: "{{.At}}/tls/{{.Name}}.key"
		ca_file: "{{.At}}/tls/ca.pem"
		verify: true
		timeout: 10
	}
}
{{end}}
operator: {{.Operator}}
system_account: {{.System}}
# A device that has no JWT yet can ask for one, and nothing else.
default_sentinel: {{.Guest}}
resolver {
	type: full
	dir: "{{.At}}/accounts"
	allow_delete: false
	interval: "2m"
}
resolver_preload {
{{- range $key, $jwt := .Accounts}}
	{{$key}}: {{$jwt}}{{end}}
}
`))

// writeConfig writes the configuration of the ith node.
func writeConfig(dir string, i int, nodes []node, o Options, t trust) error {
	data := struct {
		Options
		trust
		Name, Listen, Web, Cluster string
		Routes                     []string
	}{Options: o, trust: t, Name: nodeName(i), Listen: net.JoinHostPort("0.0.0.0", nodes[i].port)}
	if nodes[i].web {
		data.Listen, data.Web = net.JoinHostPort("0.0.0.0", plainPort), data.Listen
	}
	if len(nodes) > 1 {
		data.Cluster = net.JoinHostPort("0.0.0.0", clusterPort)
		for _, n := range nodes {
			data.Routes = append(data.Routes, net.JoinHostPort(n.host, clusterPort))
		}
	}
	var text bytes.Buffer
	if err := configText.Execute(&text, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, serverDir, data.Name+".conf"), text.Bytes(), 0o600)
}

// Settings are what the commands of those who run the engine need to know.
type Settings struct {
	Fleet  string   `json:"fleet"`
	Engine []string `json:"engine"`
}

func writeSettings(dir string, o Options) error {
	data, err := json.Marshal(Settings{o.Fleet, o.Engine})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, settingsFile), append(data, '\n'), 0o600)
}

// ReadSettings reads what Init has written into the folder dir.
func ReadSettings(dir string) (Settings, error) {
	var s Settings
	data, err := os.ReadFile(filepath.Join(dir, settingsFile))
	if err != nil {
		return s, fmt.Errorf("%s is not the folder of an engine; \"tg-fleet init\" makes one: %w", dir, err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read %s: %w", settingsFile, err)
	}
	return s, nil
}

const settingsFile = "engine.json"

func nodeName(i int) string { return fmt.Sprintf("engine-%d", i+1) }

// writeCertificates makes an authority of the engine's own, and a certificate for each
// node, which says that of the authority, too: devices know it by its digest.
func writeCertificates(dir string, nodes []node) error {
	authority := &x509.Certificate{
		Subject: pkix.Name{CommonName: "ThoughtGate engine"}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, caDER, err := certify(authority, authority, nil, 20*365*day)
	if err != nil {
		return err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: caDER})
	tlsDir := filepath.Join(dir, serverDir, "tls")
	if err := errors.Join(os.WriteFile(filepath.Join(tlsDir, "ca.pem"), ca, 0o600), writePrivate(filepath.Join(dir, keysDir, "ca.key"), caKey)); err != nil {
		return err
	}
	for i, n := range nodes {
		leaf := &x509.Certificate{
			Subject: pkix.Name{CommonName: n.host}, KeyUsage: x509.KeyUsageDigitalSignature,
			ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		}
		if ip := net.ParseIP(n.host); ip != nil {
			leaf.IPAddresses = []net.IP{ip}
		} else {
			leaf.DNSNames = []string{n.host}
		}
		key, der, err := certify(leaf, authority, caKey, 5*365*day)
		if err != nil {
			return err
		}
		chain := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), ca...)
		path := filepath.Join(tlsDir, nodeName(i))
		if err := errors.Join(os.WriteFile(path+".pem", chain, 0o600), writePrivate(path+".key", key)); err != nil {
			return err
		}
	}
	return nil
}

// certify makes a key and its certificate, signed by parentKey, or by itself without one.
func certify(of, parent *x509.Certificate, parentKey *ecdsa.PrivateKey, lifetime time.Duration) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if parentKey == nil {
		parentKey = key
	}
	if of.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)); err != nil {
		return nil, nil, err
	}
	of.NotBefore = time.Now().Add(-time.Hour) // clocks differ
	of.NotAfter = of.NotBefore.Add(lifetime)
	der, err := x509.CreateCertificate(rand.Reader, of, parent, &key.PublicKey, parentKey)
	return key, der, err
}

func writePrivate(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return secret.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// newKey makes a key and keeps its seed.
func newKey(dir, name string, create func() (nkeys.KeyPair, error)) (nkeys.KeyPair, error) {
	key, err := create()
	if err != nil {
		return nil, err
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, err
	}
	return key, secret.WriteFile(filepath.Join(dir, keysDir, name+".seed"), seed)
}

// readKey reads a key that newKey has made.
func readKey(dir, name string) (nkeys.KeyPair, error) {
	seed, err := secret.ReadFile(filepath.Join(dir, keysDir, name+".seed"))
	if err != nil {
		return nil, err
	}
	return nkeys.FromSeed([]byte(strings.TrimSpace(seed)))
}

// public returns the public half of a key that was made or read.
func public(key nkeys.KeyPair) string {
	text, err := key.PublicKey()
	if err != nil {
		panic(err) // for a key that was wiped
	}
	return text
}
