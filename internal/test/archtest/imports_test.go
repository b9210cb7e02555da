package archtest

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Names for what stands outside the standard library. A name ending in /... is
// that package and all below it.
const (
	sys      = "golang.org/x/sys/unix"
	json     = "github.com/go-json-experiment/json/jsontext"
	hujson   = "github.com/tailscale/hujson"
	toml     = "github.com/pelletier/go-toml/v2/..."
	yaml     = "go.yaml.in/yaml/v4"
	diff     = "github.com/aymanbagabas/go-udiff"
	text     = "golang.org/x/text/..."
	term     = "golang.org/x/term"
	sync     = "golang.org/x/sync/..."
	grpc     = "google.golang.org/grpc/..."
	protobuf = "google.golang.org/protobuf/..."
	argon2   = "golang.org/x/crypto/argon2"
	chacha   = "golang.org/x/crypto/chacha20poly1305"
	keyring  = "github.com/zalando/go-keyring"
	oauthex  = "github.com/modelcontextprotocol/go-sdk/oauthex"
	qr       = "rsc.io/qr"
	shsyntax = "mvdan.cc/sh/v3/syntax"
	idna     = "golang.org/x/net/idna"
	nethttp  = "golang.org/x/net/http/..."
	hpack    = "golang.org/x/net/http2/hpack"
	rawproto = "google.golang.org/protobuf/encoding/protowire"
	cedar    = "github.com/cedar-policy/cedar-go/..."
	sqlite   = "modernc.org/sqlite/..."
	systemd  = "github.com/coreos/go-systemd/v22/..."
	cobra    = "github.com/spf13/cobra/..."
	pflag    = "github.com/spf13/pflag"
	tea      = "charm.land/bubbletea/v2"
	cmp      = "github.com/google/go-cmp/cmp"
	ansi     = "github.com/charmbracelet/x/ansi"
	profile  = "github.com/charmbracelet/colorprofile"
	dbus     = "github.com/godbus/dbus/v5"
	slackgo  = "github.com/slack-go/slack/..."
	ws       = "github.com/gorilla/websocket"
	rpc      = "google.golang.org/genproto/googleapis/rpc/errdetails"
	prom     = "github.com/prometheus/client_golang/prometheus/..."
	promText = "github.com/prometheus/common/expfmt"
	promData = "github.com/prometheus/client_model/go"
	otel     = "go.opentelemetry.io/otel/..."
	otlp     = "go.opentelemetry.io/proto/otlp/..."
	zstd     = "github.com/klauspost/compress/zstd"
	proto    = module + "proto/thoughtgate/v1"
	extProto = module + "proto/thoughtgate/extension/v1"
	gitleaks = "github.com/zricethezav/gitleaks/v8/..."
	zerolog  = "github.com/rs/zerolog"
	rapid    = "pgregory.net/rapid"

	// The engine of a fleet. Nothing but tg-fleet speaks its protocol.
	nats       = "github.com/nats-io/nats.go/..."
	natsServer = "github.com/nats-io/nats-server/v2/server"
	natsJWT    = "github.com/nats-io/jwt/v2"
	nkeys      = "github.com/nats-io/nkeys"
	ageSeal    = "filippo.io/age"
	sshLib     = "golang.org/x/crypto/ssh/..."

	consoleTest = "cmd/tgctl/internal/consoletest"
)

// mayImport says for each package what it may import besides the standard
// library. Packages are named from the top of the repository; daemon/* and
// internal/* stand for what has no line of its own. Tests may import anything.
var mayImport = map[string][]string{
	"internal/*":            {sys, json},
	"internal/child":        {sys, "internal/proc"},
	"internal/sock":         {sys, "internal/proc"},
	"internal/rawjson":      {json, "internal/wire"},
	"internal/tuf":          {json, "internal/rawjson"},
	"internal/mcp":          {sys, json, "internal/wire"},
	"internal/rpc":          {json, "internal/wire"},
	"internal/record/calls": {"internal/mcp", "internal/record", "internal/wire"},
	"internal/agenthook":    {"internal/rawjson", "internal/wire"},
	// What a command would destroy, and its copies.
	"internal/worktree": {"internal/beneath"},
	"internal/undo":     {sys, "internal/beneath"},
	// What agents write down about their conversations.
	"internal/transcript": {"internal/beneath"},
	// One package for each syntax of configuration files, which alone knows the
	// library that reads it, on what is the same for all of them.
	"internal/edit/edittest": {"internal/edit"},
	"internal/edit/jsonc":    {sys, json, hujson, "internal/edit"},
	"internal/edit/tomledit": {toml, "internal/edit"},
	"internal/edit/yamledit": {yaml, "internal/edit"},
	"internal/agentconf":     {sys, json, diff, nethttp, "internal/agenthook", "internal/edit", "internal/edit/jsonc", "internal/edit/tomledit", "internal/edit/yamledit", "internal/proc", "internal/uri"},
	"internal/browse":        {sys, "internal/uri"},
	// What travels in a fleet. Only its stream is packed, by what the daemon does not link.
	"internal/fleet":        {},
	"internal/fleet/stream": {zstd, "internal/fleet", "internal/record"},
	"internal/display":      {sys, json, text},
	"internal/uri":          {idna},
	// Command lines: the only package that knows the parser, and what is known of programs.
	"internal/shell":         {shsyntax},
	"internal/shell/effects": {"internal/shell"},
	// Test material: TestImports lets nothing outside import it.
	"internal/test/*":            {sys, json},
	"internal/test/golden":       {cmp},
	"internal/test/browser":      {json, ws, "internal/test/tempdir"},
	"internal/test/pictures":     {"internal/test/browser", "internal/test/golden"},
	"internal/test/bench":        {sys, protobuf, proto, "client", "internal/test/rig"}, // it measures from where people are, on a finer clock than /proc has
	"internal/test/behind":       {protobuf, proto, "client", "internal/test/rig"},
	"internal/test/fake":         {sys, json, toml, yaml}, // its agents read what ours rewrite
	"internal/test/rig":          {sys, "internal/test/programs", "internal/test/tempdir"},
	"internal/test/sessionbus":   {dbus, "internal/test/rig"},
	"internal/test/fleet/demo":   {"internal/demo", "internal/test/fleet/server"},
	"internal/test/fleet/server": {natsServer},
	"internal/test/programs":     {sys, "internal/test/tempdir"},

	// A part of daemons that tests build.
	"internal/test/kills/testdata/stop": {sys},

	// What a service manager is told, and the files that it reads.
	"contrib/*":        {},
	"internal/service": {sys, "contrib/systemd", "contrib/launchd", "internal/sock"},

	// The bottom of the daemon, and what stands on it. Siblings know gate,
	// config and the store, never each other.
	"daemon/gate":   {sys, json, "internal/..."},
	"daemon/config": {sys, json, yaml, "internal/..."},
	"daemon/store":  {sys, json, sync, "internal/...", "daemon/gate", sqlite},
	"daemon/*":      {sys, json, sync, "internal/...", "daemon/gate", "daemon/config", "daemon/store"},
	// Parts of a subject that has more than one.
	"daemon/pin/*":     {json, "internal/...", "daemon/gate", "daemon/store"},
	"daemon/session/*": {sys, json, "internal/...", "daemon/gate", "daemon/config", "daemon/store"},
	// What is kept of a session is known by its mapping.
	"daemon/keep": {sys, "daemon/relay/mapping", "internal/child"},
	// A session of an agent and a server, on the memory that outlives a daemon and on
	// descriptors that are not the daemon's own.
	"daemon/relay":         {sys, json, "internal/...", "daemon/gate", "daemon/relay/..."},
	"daemon/relay/mapping": {sys},
	"daemon/relay/pipe":    {sys, "daemon/relay/mapping"},
	// What shims hand over, on who they are and on who keeps it.
	"daemon/hook":     {sys, "internal/...", "daemon/gate", "daemon/session", "daemon/submit"},
	"daemon/handover": {sys, "internal/...", "daemon/gate", "daemon/keep", "daemon/relay", "daemon/relay/...", "daemon/session", "daemon/store"},
	// What keeps programs running stands on supervise.
	"daemon/runtime/supervise": {sys, sync, "internal/...", "daemon/gate"},
	"daemon/runtime/agent":     {sys, json, "internal/...", "daemon/gate", "daemon/config", "daemon/runtime/supervise", "daemon/submit"},
	// Servers behind an address. They are judged elsewhere.
	"daemon/remote":            {"internal/...", "daemon/remote/sse", nethttp},
	"daemon/remote/sse":        {},
	"daemon/facts":             {sys, json, sync, text, "internal/...", "daemon/gate", "daemon/config"},
	"daemon/fleet":             {json, "internal/...", "daemon/gate", "daemon/store"},
	"daemon/runtime/backend":   {"internal/...", "daemon/gate", "daemon/runtime/supervise"},
	"daemon/observe/metrics":   {"internal/...", "daemon/gate", "daemon/config", prom, promText, promData},
	"daemon/approval/presence": {sys, argon2, "internal/...", "daemon/gate", "daemon/store"},
	// Logins to servers: only login knows the Go SDK, only its vault a keyring and a cipher.
	"daemon/login":          {json, "internal/...", "daemon/gate", "daemon/login/vault", oauthex},
	"daemon/login/vault":    {sys, sync, "internal/secret", chacha, keyring},
	"daemon/policy":         {sys, json, sync, "internal/...", "daemon/gate", "daemon/config", cedar},
	"daemon/observe/traces": {"internal/...", "daemon/gate", "daemon/config", otel, otlp, protobuf},
	// Programs of the user's: they stand on supervise, and their parts on nothing
	// of the daemon but the reader of its files.
	"daemon/runtime/extension":   {sys, json, sync, "internal/...", "daemon/gate", "daemon/config", "daemon/store", "daemon/runtime/supervise", "daemon/runtime/extension/..."},
	"daemon/runtime/extension/*": {sys, json, "internal/...", "daemon/gate", "daemon/config", "daemon/runtime/extension/manifest"},
	// What an extension offers beyond hooks: its models, and its tools.
	"daemon/runtime/extension/provider": {json, "internal/..."},
	"daemon/runtime/extension/offer":    {json, "internal/...", "daemon/gate", "daemon/runtime/extension/protocol"},
	"daemon/runtime/extension/sampling": {json, "internal/...", "daemon/gate", "daemon/config", "daemon/runtime/extension/..."},
	// A collector for tests.
	"daemon/observe/traces/collect": {otlp, protobuf},

	// The second wire of extensions is protobuf, which only this package knows.
	"daemon/runtime/extension/protowire": {json, protobuf, extProto, "internal/rpc", "internal/wire"},

	// api translates and delegates, and shares with client the version of the
	// protocol and the one map of errors; package daemon wires.
	"daemon/api": {sys, json, sync, grpc, rpc, protobuf, proto, "client", "internal/...", "daemon/..."},
	"daemon":     {sys, sync, "internal/...", "daemon/..."},

	// What authors of extensions link.
	"client/extension": {protobuf, extProto, "internal/wire"},

	// Extensions that ship know nothing of the daemon. The scrubber is a module of
	// its own, so that its library is in no other program.
	"extensions/exttest":  {},
	"extensions/quota":    {"client/extension"},
	"extensions/scrubber": {json, gitleaks, zerolog, "internal/rpc", "internal/wire"},

	"client":              {grpc, rpc, protobuf, proto, sys, "internal/sock"},
	"client/inbox":        {proto, "client"},
	"cmd/thoughtgated":    {sys, term, systemd, "daemon", "daemon/...", "internal/..."},
	"cmd/tg-shim":         {"cmd/tg-shim/...", "internal/child", "internal/sock"},
	"cmd/tg-shim/oneproc": {},
	// What speaks to the daemon in tg-shim links no library for it: one runs beside
	// every server.
	"cmd/tg-shim/attach": {hpack, rawproto, "internal/sock"},
	"cmd/tg-shim/hook":   {"cmd/tg-shim/attach", "internal/wire"},
	"cmd/tg-shim/serve":  {sys, term, "cmd/tg-shim/attach", "internal/child", "internal/mcp", "internal/private", "internal/proc", "internal/wire"},
	// The courier of a fleet, and what those who run its engine use.
	"cmd/tg-fleet":         {grpc, protobuf, proto, nats, "cmd/tg-fleet/...", "internal/fleet/...", "internal/private", "internal/record", "internal/secret", "internal/sock"},
	"cmd/tg-fleet/courier": {grpc, protobuf, proto, otlp, nats, natsJWT, nkeys, ageSeal, sshLib, "cmd/tg-fleet/engine", "cmd/tg-fleet/streams", "internal/fleet/...", "internal/record", "internal/retryafter", "internal/secret", "internal/tuf"},
	"cmd/tg-fleet/engine":  {nats, natsJWT, nkeys, "cmd/tg-fleet/streams", "internal/fleet", "internal/secret"},
	"cmd/tg-fleet/logs":    {nats, "cmd/tg-fleet/streams", "internal/fleet/...", "internal/record"},
	"cmd/tg-fleet/streams": {nats},
	"cmd/tgctl": {cobra, "internal/private",
		"cmd/tgctl/internal/ui", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/audit", "cmd/tgctl/internal/daemon", "cmd/tgctl/internal/dashboard", "cmd/tgctl/internal/doctor", "cmd/tgctl/internal/ext", "cmd/tgctl/internal/fleet", "cmd/tgctl/internal/inbox", "cmd/tgctl/internal/login", "cmd/tgctl/internal/man", "cmd/tgctl/internal/notify", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/programs", "cmd/tgctl/internal/scan", "cmd/tgctl/internal/slack", "cmd/tgctl/internal/status", "cmd/tgctl/internal/tour", "cmd/tgctl/internal/trust", "cmd/tgctl/internal/wrap"},
	"cmd/tgctl/host": {sys, "internal/proc"},
	// How messages are written with --json: it knows them by their descriptors alone.
	"cmd/tgctl/internal/pbjson":    {json, protobuf},
	"cmd/tgctl/internal/approval":  {proto, "client", "internal/display", "internal/private", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/inbox":     {cobra, diff, tea, ansi, profile, protobuf, proto, "client", "client/inbox", "internal/display", "internal/private", "internal/rawjson", "internal/record", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/audit", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/agentenv":  {"client", "internal/agentconf", "internal/sock", "cmd/tgctl/internal/connect"},
	"cmd/tgctl/internal/wrap":      {sys, term, cobra, pflag, proto, "client", "internal/agentconf", "internal/agenthook", "internal/child", "internal/display", "internal/proc", "internal/sock", "cmd/tgctl/internal/agentenv", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/trust", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/policy":    {sys, json, cobra, diff, protobuf, proto, "client", "internal/agentconf", "internal/display", "internal/rawjson", "internal/record", "internal/sock", "cmd/tgctl/internal/agentenv", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/notify":    {sys, dbus, cobra, proto, "client", "client/inbox", "internal/display", "internal/proc", "internal/sock", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/phone", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/phone":     {sync, proto, "client", "client/inbox", "internal/display", "internal/retryafter", "internal/secret", "internal/sock", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/dashboard": {cobra, protobuf, proto, "client", "client/inbox", "internal/browse", "internal/display", "internal/private", "internal/record", "internal/record/calls", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/audit", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/inbox", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/status", "cmd/tgctl/internal/trust", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/programs":  {cobra, protobuf, proto, "client", "internal/display", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/status":    {cobra, protobuf, proto, "client", "internal/agentconf", "internal/display", "internal/record", "internal/record/calls", "internal/sock", "cmd/tgctl/host", "cmd/tgctl/internal/agentenv", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/audit", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/daemon", "cmd/tgctl/internal/fleet", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/programs", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/scan":      {cobra, proto, "client", "internal/agentconf", "internal/agenthook", "internal/beneath", "internal/display", "internal/rawjson", "internal/transcript", "internal/wire", "cmd/tgctl/internal/agentenv", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/man":       {cobra, pflag, "cmd/tgctl/internal/connect", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/doctor":    {cobra, proto, "client", "internal/agentconf", "internal/agenthook", "internal/demo", "internal/display", "internal/proc", "internal/record", "internal/service", "internal/sock", "cmd/tgctl/host", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/daemon", "cmd/tgctl/internal/fleet", "cmd/tgctl/internal/phone", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/programs", "cmd/tgctl/internal/status", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/ext":       {cobra, proto, "client", "internal/display", "internal/sock", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/programs", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/trust":     {json, cobra, diff, proto, "client", "internal/display", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/daemon":    {sys, cobra, proto, "client", "internal/beside", "internal/display", "internal/proc", "internal/service", "internal/sock", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/fleet":     {sys, cobra, protobuf, proto, "client", "internal/display", "internal/fleet", "internal/tuf", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/policy", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/login":     {cobra, proto, "client", "internal/agentconf", "internal/browse", "internal/display", "internal/private", "cmd/tgctl/internal/agentenv", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/pbjson", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/tour":      {cobra, proto, "internal/child", "internal/demo", "internal/display", "internal/sock", "cmd/tgctl/host", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/audit", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/audit":     {cobra, protobuf, proto, "client", "internal/display", "internal/record", "internal/record/calls", "internal/sock", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/connect":   {sys, cobra, proto, "client", "internal/beside", "internal/display", "internal/proc", "internal/service", "internal/sock", "cmd/tgctl/host", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/ui":        {term, ansi, cobra, pflag, qr, protobuf, proto, "client", "internal/display", "internal/rawjson", "cmd/tgctl/internal/pbjson"},

	// Test material for the commands, outside of internal/test since it runs what only tgctl may import.
	consoleTest: {rapid, cobra, grpc, protobuf, proto, "client", "internal/agentconf", "internal/display", "internal/record", "internal/sock", "internal/test/golden", "internal/test/pictures", "internal/test/tempdir", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/ui"},

	// No other package talks to Slack. What else has to know of a surface: docs/development.md.
	"cmd/tgctl/internal/slack":           {slackgo, ws, sync, cobra, proto, "client", "client/inbox", "internal/display", "internal/secret", "internal/sock", "cmd/tgctl/internal/approval", "cmd/tgctl/internal/connect", "cmd/tgctl/internal/ui"},
	"cmd/tgctl/internal/slack/fakeslack": {ws},
}

func TestImports(t *testing.T) {
	for _, source := range sources(t) {
		allowed, ok := rulesFor(source.dir)
		if !ok {
			t.Errorf("%s: no rule says what %s may import; add a line to mayImport", source.path, source.dir)
			continue
		}
		for _, spec := range source.file.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(name, module+"internal/test/") && !strings.HasPrefix(source.dir, "internal/test/") && source.dir != consoleTest {
				t.Errorf("%s imports %s, which is test material", source.path, name)
			}
			if !standard(name) && !slices.ContainsFunc(allowed, func(rule string) bool { return covers(rule, name) }) {
				t.Errorf("%s imports %s, which %s may not", source.path, name, source.dir)
			}
		}
	}
}

// TestImportRulesAreUsed keeps the table from outliving the packages it names.
func TestImportRulesAreUsed(t *testing.T) {
	there := map[string]bool{}
	for _, source := range sources(t) {
		there[source.dir] = true
	}
	for dir := range mayImport {
		if !strings.HasSuffix(dir, "/*") && !there[dir] {
			t.Errorf("mayImport names %s, which has no Go file", dir)
		}
	}
}

func TestCovers(t *testing.T) {
	tests := []struct {
		rule, name string
		want       bool
	}{
		{"internal/wire", module + "internal/wire", true},
		{"internal/wire", module + "internal/wires", false},
		{"internal/...", module + "internal/wire", true},
		{"internal/...", module + "daemon/wire", false},
		{"daemon", module + "daemon/gate", false},
		{grpc, "google.golang.org/grpc", true},
		{grpc, "google.golang.org/grpc/codes", true},
		{grpc, "google.golang.org/grpcx", false},
		{json, "github.com/go-json-experiment/json", false},
		{proto, module + "proto/thoughtgate/v1", true},
	}
	for _, test := range tests {
		if got := covers(test.rule, test.name); got != test.want {
			t.Errorf("covers(%q, %q) = %v, want %v", test.rule, test.name, got, test.want)
		}
	}
}

// rulesFor returns the line of mayImport for a package.
func rulesFor(dir string) ([]string, bool) {
	if allowed, ok := mayImport[dir]; ok {
		return allowed, true
	}
	allowed, ok := mayImport[path.Dir(dir)+"/*"]
	return allowed, ok
}

// covers reports whether rule permits the import of name.
func covers(rule, name string) bool {
	if !strings.Contains(strings.SplitN(rule, "/", 2)[0], ".") {
		rule = module + rule
	}
	if below, ok := strings.CutSuffix(rule, "/..."); ok {
		return name == below || strings.HasPrefix(name, below+"/")
	}
	return name == rule
}

// standard reports whether an import path is of the standard library: its
// first element is no host.
func standard(name string) bool {
	return !strings.Contains(strings.SplitN(name, "/", 2)[0], ".")
}
