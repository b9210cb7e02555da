package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

var described = regexp.MustCompile(`^(?:v?(\d+\.\d+\.\d+)(?:-((?:alpha|beta|rc)\.?\d+))?(?:-(\d+)-g([0-9a-f]+))?|([0-9a-f]{7,40}))(-dirty)?$`)

// packageVersion converts the output of git describe to a version that deb and rpm order as
// expected: a candidate before its release, a commit after the tag that it follows. Before the
// first tag versions are ordered by date.
func packageVersion(describe string, date time.Time) (string, error) {
	m := described.FindStringSubmatch(describe)
	if m == nil {
		return "", fmt.Errorf("-version is %q; it is a tag as v1.2.3, or what git describe says", describe)
	}
	tag, candidate, commits, since, commit, dirty := m[1], m[2], m[3], m[4], m[5], m[6]
	version := tag
	if commit != "" {
		version = "0.0.0~" + date.UTC().Format("20060102150405") + ".g" + commit
	}
	if candidate != "" {
		version += "~" + candidate
	}
	if commits != "" {
		version += "+" + commits + ".g" + since
	}
	if dirty != "" {
		version += "+dirty"
	}
	return version, nil
}

// archiveVersion returns the version for the names of downloaded files, without a tilde, which
// some programs would change.
func (r *release) archiveVersion() string { return strings.ReplaceAll(r.number, "~", "-") }
