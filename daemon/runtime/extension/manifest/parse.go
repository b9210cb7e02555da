package manifest

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// Limits of an extension's configuration.
const (
	MaxKey    = 128      // bytes of a key
	MaxValue  = 16 << 10 // bytes of a value
	MaxValues = 256      // number of values
)

var (
	name     = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)
	variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// IsName reports whether text is a valid name of an extension.
func IsName(text string) bool { return name.MatchString(text) }

// CheckKey returns an error if key is not a valid key of an extension's configuration.
func CheckKey(key string) error {
	switch {
	case strings.TrimSpace(key) == "":
		return errors.New("config key must be non-empty")
	case strings.ContainsAny(key, "./ "):
		return errors.New("config key must not contain dots, slashes, or spaces")
	case len(key) > MaxKey:
		return fmt.Errorf("config key must be at most %d bytes", MaxKey)
	case strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsGraphic(r) || unicode.IsSpace(r) }):
		return errors.New("config key must not contain control characters")
	}
	return nil
}

// Parse parses text, the manifest at path, which need not exist. The Manifest is nil if any of
// the diagnostics is an error.
func Parse(path string, text []byte) (*Manifest, []config.Diagnostic) {
	m := &Manifest{}
	marks, found := config.Decode(path, text, m)
	if marks == nil {
		return nil, found
	}
	c := checker{m, marks, path, found}
	c.all()
	config.Sort(c.found)
	if config.HasErrors(c.found) {
		return nil, c.found
	}
	return m, c.found
}

// checker looks for values that are well formed but invalid.
type checker struct {
	*Manifest
	marks config.Marks
	path  string
	found []config.Diagnostic
}

// wrong reports an error at the value that field points to. It reports nothing for an absent
// value: the decoder reports absent values that are required.
func (c *checker) wrong(field any, hint, format string, args ...any) {
	place := c.marks.Place(field)
	if place.Line == 0 {
		return
	}
	place.File = c.path
	c.found = append(c.found, place.Diagnostic(config.Error, "", hint, format, args...))
}

func (c *checker) all() {
	if !IsName(c.Name) {
		c.wrong(&c.Name, "use at most 64 lower-case letters, digits, - and _, with a letter or digit first", "invalid extension name %q", c.Name)
	}
	c.line(&c.Version, "version", 64)
	c.line(&c.Description, "description", 200)
	c.program()
	c.environment()
	seen := map[Permission]bool{}
	for i, p := range c.Permissions {
		if seen[p] {
			c.wrong(&c.Permissions[i], "", "duplicate permission %s", p)
		}
		seen[p] = true
	}
	c.hook(&c.Hooks.Before, "before", HooksBefore)
	c.hook(&c.Hooks.After, "after", HooksAfter)
	if c.Restart.First > c.Restart.Most {
		c.wrong(&c.Restart, "", "restart: first is longer than most")
	}
	if len(c.Config) > MaxValues {
		c.wrong(&c.Config, "", "config has %d values; at most %d are allowed", len(c.Config), MaxValues)
	}
	for _, key := range slices.Sorted(maps.Keys(c.Config)) {
		if err := CheckKey(key); err != nil {
			c.wrong(&c.Config, "", "%q: %v", key, err)
		}
		if len(c.Config[key]) > MaxValue {
			c.wrong(&c.Config, "", "the value of %q has %d bytes; at most %d are allowed", key, len(c.Config[key]), MaxValue)
		}
	}
}

func (c *checker) line(field *string, key string, most int) {
	text := *field
	switch {
	case strings.TrimSpace(text) == "":
		c.wrong(field, "", "%s is empty", key)
	case strings.ContainsAny(text, "\n\t"):
		c.wrong(field, "", "%s has more than one line", key)
	case len(text) > most:
		c.wrong(field, "", "%s has %d bytes; at most %d are allowed", key, len(text), most)
	}
}

func (c *checker) program() {
	switch {
	case strings.TrimSpace(c.Command) != c.Command || c.Command == "":
		c.wrong(&c.Command, "", "command is empty, or has blanks around it")
	case strings.Contains(c.Command, "/") && !filepath.IsLocal(c.Command):
		c.wrong(&c.Command, "write a path within the folder, as ./scrubber, or a name that is found in PATH", "command %q leads out of the folder", c.Command)
	case !strings.Contains(c.Command, "/") && strings.ContainsAny(c.Command, " \t\n"):
		c.wrong(&c.Command, "write arguments as args", "command %q contains arguments, and it is not run by a shell", c.Command)
	}
}

func (c *checker) environment() {
	bad := func(name string) string {
		switch {
		case !variable.MatchString(name):
			return "is not a variable name"
		case strings.HasPrefix(name, "THOUGHTGATE_"):
			return "begins with THOUGHTGATE_, which is reserved"
		}
		return ""
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if why := bad(name); why != "" {
			c.wrong(&c.Env, "", "env: %q %s", name, why)
		}
	}
	for i, name := range c.Pass {
		_, both := c.Env[name]
		switch why := bad(name); {
		case why != "":
			c.wrong(&c.Pass[i], "", "pass: %q %s", name, why)
		case both:
			c.wrong(&c.Pass[i], "", "pass: %q is already set by env", name)
		case slices.Contains(c.Pass[:i], name):
			c.wrong(&c.Pass[i], "", "pass: duplicate %q", name)
		}
	}
}

func (c *checker) hook(h *Hook, key string, p Permission) {
	if !h.Wanted {
		return
	}
	if !c.Has(p) {
		c.wrong(h, "add it to permissions", "hooks.%s needs the permission %s", key, p)
	}
	for _, l := range []struct {
		key   string
		globs *[]config.Glob
	}{{"servers", &h.Servers}, {"tools", &h.Tools}, {"methods", &h.Methods}} {
		if len(*l.globs) == 0 {
			c.wrong(l.globs, "for all, leave the key out", "hooks.%s.%s is empty, so it matches nothing", key, l.key)
		}
	}
}
