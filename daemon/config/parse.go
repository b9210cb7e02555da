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

// Variable is the environment variable that holds the path of the configuration.
const Variable = "THOUGHTGATE_CONFIG"

// builtIn replaces the path of a file in places and diagnostics.
const builtIn = "built-in default"

// maxFile is the maximum length of a configuration, in bytes.
const maxFile = 1 << 20

//go:embed default.yaml
var defaultYAML []byte

// Find returns the path of the configuration: the value of the flag --config, or else of
// $THOUGHTGATE_CONFIG, or else thoughtgate.yaml in configDir, ThoughtGate's folder under
// $XDG_CONFIG_HOME. named reports whether the user named the path; then the file must exist.
func Find(flag string, getenv func(string) string, configDir string) (path string, named bool) {
	if flag != "" {
		return flag, true
	}
	if path := getenv(Variable); path != "" {
		return path, true
	}
	return filepath.Join(configDir, FileName), false
}

// Open loads the file that Find found. If the user did not name it and it does not exist, Open
// returns the built-in default.
func Open(path string, named bool, getenv func(string) string) (*Config, []Diagnostic) {
	if !named {
		// Lstat, because a dangling link is a file that somebody intended.
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			return Default(), nil
		}
	}
	return Load(path, getenv)
}

// Load loads the file at path. It returns the Config and all problems, sorted by place. The
// Config is nil if any of them is an error, such as a missing file. getenv looks up environment
// variables, as os.Getenv does.
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
		d.Message, d.Hint = "the file does not exist", "name an existing one with --config or $"+Variable
	}
	return d
}

// Default returns the configuration that applies if there is no file. It is written like a file
// and parsed by the same code.
func Default() *Config {
	c, problems := parse(builtIn, defaultYAML, func(string) string { return "" }, nil, whole)
	if c == nil {
		panic(fmt.Sprintf("config: the built-in default: %v", problems))
	}
	return c
}

// theFile denotes the whole file in messages.
const theFile = "the file"

// Parse parses text as Load does for the file at path, which need not exist.
func Parse(path string, text []byte, getenv func(string) string) (*Config, []Diagnostic) {
	c, ds := parse(path, text, getenv, Default(), whole)
	if c != nil {
		c.Path = path
	}
	return c, ds
}

// parse decodes and checks text, which has the form f. Without a section governance, it takes
// that of base.
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

// defaults sets the defaults. Those of list and table entries are set when an entry is decoded.
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
		// The lengths come first, so that no two sets of variables hash alike.
		fmt.Fprintf(h, "%d:%s%d:%s", len(name), name, len(used[name]), used[name])
	}
	c.Digest = hex.EncodeToString(h.Sum(nil))
}

// Source returns the first source that matches the server id, or nil.
func (c *Config) Source(server string) *Source {
	for i := range c.Sources {
		if c.Sources[i].ID.Match(server) {
			return &c.Sources[i]
		}
	}
	return nil
}

// DefaultWorkflow is the name of the workflow that is used if none is named and there is not
// exactly one.
const DefaultWorkflow = "default"

// Workflow returns the workflow with this name, or nil. An empty name stands for the only
// workflow there is, or else for DefaultWorkflow. DefaultWorkflow always exists: unless the file
// has it, it asks on local surfaces for ten minutes. The returned name is never empty.
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

// complete sets what depends on other members.
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
