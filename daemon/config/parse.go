package config

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"
)

// FileName is the name of the configuration in its folder.
const FileName = "thoughtgate.yaml"

// Variable names the variable of the environment that names the configuration.
const Variable = "THOUGHTGATE_CONFIG"

// builtIn stands where the path of a file would, in places and diagnostics.
const builtIn = "built-in default"

// maxFile is the longest configuration, in bytes.
const maxFile = 1 << 20

//go:embed default.yaml
var defaultYAML []byte

// Find returns the path of the configuration: that of the flag --config, else
// that of $THOUGHTGATE_CONFIG, else thoughtgate.yaml in configDir, the folder
// of ThoughtGate under $XDG_CONFIG_HOME. named reports whether somebody named
// it; then it must be there.
func Find(flag string, getenv func(string) string, configDir string) (path string, named bool) {
	if flag != "" {
		return flag, true
	}
	if path := getenv(Variable); path != "" {
		return path, true
	}
	return filepath.Join(configDir, FileName), false
}

// Open loads what Find found: a file that nobody named and that isn't there is
// the built-in default.
func Open(path string, named bool, getenv func(string) string) (*Config, []Diagnostic) {
	if !named {
		// Lstat, since a link that leads nowhere is a file that somebody meant.
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return Default(), nil
		}
	}
	return Load(path, getenv)
}

// Load reads the file at path and returns what it says together with all that
// is wrong with it, sorted by place. The Config is nil when any of that is an
// error, a missing file among them. getenv looks variables up, as os.Getenv.
func Load(path string, getenv func(string) string) (*Config, []Diagnostic) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, []Diagnostic{unreadable(path, err)}
	}
	text, err := ReadFile(abs, maxFile)
	if err != nil {
		return nil, []Diagnostic{unreadable(path, err)}
	}
	return Parse(abs, text, getenv)
}

func unreadable(path string, err error) Diagnostic {
	d := Diagnostic{File: path, Severity: Error, Message: fmt.Sprintf("the configuration can't be read: %v", err)}
	if errors.Is(err, fs.ErrNotExist) {
		d.Message, d.Hint = "there is no such file", "name an existing one with --config or $"+Variable
	}
	return d
}

// Default returns the configuration that holds where no file exists. It is
// written as a file is, and read by the same code.
func Default() *Config {
	c, problems := parse(builtIn, defaultYAML, func(string) string { return "" }, nil, whole)
	if c == nil {
		panic(fmt.Sprintf("config: the built-in default: %v", problems))
	}
	return c
}

// theFile names the whole file in messages.
const theFile = "the file"

// Parse reads text as Load reads the file at path, which need not exist.
func Parse(path string, text []byte, getenv func(string) string) (*Config, []Diagnostic) {
	c, ds := parse(path, text, getenv, Default(), whole)
	if c != nil {
		c.Path = path
	}
	return c, ds
}

// parse decodes and checks text, which has the form f. Rules that it doesn't
// write are those of base.
func parse(file string, text []byte, getenv func(string) string, base *Config, f form) (*Config, []Diagnostic) {
	root, ds := document(file, text)
	if ds != nil {
		return nil, ds
	}
	d := &decoder{file: file, getenv: getenv, marks: map[any]Place{}, used: map[string]string{}, form: f}
	c := &Config{marks: d.marks}
	c.defaults()
	d.value(root, reflect.ValueOf(c).Elem(), theFile, "")
	if base != nil && c.Place(&c.Governance).Line == 0 {
		c.Governance = base.Governance
	}
	ch := &checker{Config: c, file: file}
	ch.all()
	if f.check != nil {
		f.check(ch)
	}
	ds = append(d.found, ch.found...)
	Sort(ds)
	if HasErrors(ds) {
		return nil, ds
	}
	c.digest(text, d.used)
	c.text = text
	return c, ds
}

// defaults fills in what holds where nothing is written. The defaults of what
// stands in lists and tables are set when an entry is met.
func (c *Config) defaults() {
	c.Profile = Production
	c.Governance.Defaults = Defaults{Action: Forward, Asks: Approve}
	c.Cedar = Cedar{Policies: []string{"policies/*.cedar"}, Schema: SchemaGenerated}
	c.Audit = Audit{
		Sync: SyncInterval, Interval: 20 * time.Millisecond,
		Retention: 90 * 24 * time.Hour, MaxSize: 2 << 30, Values: ValuesRedacted,
	}
	c.Pins.Mode = PinHold
	c.Shim = Shim{Reattach: 15 * time.Second, Stderr: StderrEscaped, MaxMessage: 10 << 20}
	c.Limits = Limits{PendingPerServer: 16, Pending: 256, PendingBytes: 64 << 20, Runs: 16, Sessions: 512, Orphan: 5 * time.Minute}
	c.Sampling = Sampling{When: SamplingUnable, MaxIterations: 8, MaxTokens: 4096}
	c.Metrics.Interval = 15 * time.Second
	c.Telemetry.OTLP.Protocol = "http/protobuf"
	c.Telemetry.Sampling.SuccessSampleRate = 1
}

func (c *Config) digest(text []byte, used map[string]string) {
	sum := sha256.Sum256(text)
	c.FileDigest = hex.EncodeToString(sum[:])
	c.Digest = c.FileDigest
	if len(used) == 0 {
		return
	}
	h := sha256.New()
	h.Write(sum[:])
	for _, name := range keysOf(used) {
		// Lengths first, so that no two sets of variables read alike.
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(used[name]), used[name])
	}
	c.Digest = hex.EncodeToString(h.Sum(nil))
}

// Source returns what is known of the server with this id, nil for nothing.
func (c *Config) Source(server string) *Source {
	for i := range c.Sources {
		if c.Sources[i].ID.Match(server) {
			return &c.Sources[i]
		}
	}
	return nil
}

// DefaultWorkflow is the name of the workflow that asks where no name was
// given and there isn't exactly one to choose.
const DefaultWorkflow = "default"

// Workflow returns the workflow of this name; an empty name is the only one
// there is, else that of the name DefaultWorkflow. A workflow of that name
// exists always: where nobody wrote it, it asks on local surfaces for ten
// minutes. The returned name is never empty. It is nil when there is none.
func (c *Config) Workflow(name string) (string, *Workflow) {
	if name == "" {
		name = DefaultWorkflow
		if len(c.Approval) == 1 {
			name = keysOf(c.Approval)[0]
		}
	}
	if w := c.Approval[name]; w != nil {
		return name, w
	}
	if name != DefaultWorkflow {
		return name, nil
	}
	w := &Workflow{}
	w.defaults()
	w.complete()
	return name, w
}

// complete fills in what depends on other members.
func (w *Workflow) complete() {
	w.Destination.complete()
	if len(w.Surfaces) > 0 {
		return
	}
	w.Surfaces = []Surface{SurfaceTerminal, SurfaceScript}
	if w.Destination.Type == DestinationSlack {
		w.Surfaces = append(w.Surfaces, SurfaceSlack)
	}
}
