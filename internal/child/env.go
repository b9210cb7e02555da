package child

import (
	"maps"
	"slices"
	"strings"
)

// ComposeEnv returns base without the names in drop and with the entries of set. A name in drop
// that ends in * stands for every name with that prefix. set takes precedence. The order of
// base is kept; the entries of set follow, sorted by name. Entries of base without a name, and
// later entries with the same name, are left out: getenv returns the first of two, and a
// program that read the second would see another environment.
func ComposeEnv(base []string, set map[string]string, drop []string) []string {
	seen := make(map[string]bool, len(base)+len(set))
	for name := range set {
		seen[name] = true
	}
	env := make([]string, 0, len(base)+len(set))
	for _, entry := range base {
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" || seen[name] || dropped(name, drop) {
			continue
		}
		seen[name] = true
		env = append(env, entry)
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		env = append(env, name+"="+set[name])
	}
	return env
}

func dropped(name string, drop []string) bool {
	return slices.ContainsFunc(drop, func(pattern string) bool {
		if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

// LookupEnv returns what getenv would find in env: of several entries of a name, the first. ok is false if
// there is none.
func LookupEnv(env []string, name string) (value string, ok bool) {
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value, true
		}
	}
	return "", false
}
