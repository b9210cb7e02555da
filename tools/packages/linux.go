package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	"github.com/goreleaser/nfpm/v2/rpm"
)

const (
	homepage   = "https://github.com/thoughtgate/thoughtgated"
	maintainer = "The ThoughtGate authors <thoughtgate@users.noreply.github.com>"
	summary    = "gate for the tool calls of AI agents"
	about      = summary + `
ThoughtGate stands between an AI agent and the MCP servers that it starts.
Every tool call is judged by rules, written down, and, where the rules say so,
held until a person answers. It consists of a daemon for each user, a shim for
each server, and the command line tool tgctl.`
)

// linuxPackages creates the deb and the rpm package of a platform.
func (r *release) linuxPackages(p platform, programs []program, t *texts, notices []byte, out string) error {
	if err := r.pack(deb.Default, r.info(p), r.forDeb(programs, t, notices), out); err != nil {
		return fmt.Errorf("deb: %w", err)
	}
	if err := r.pack(rpm.DefaultRPM, r.info(p), forRPM(programs, t, notices), out); err != nil {
		return fmt.Errorf("rpm: %w", err)
	}
	return nil
}

// info returns the metadata of a package. It has no scripts: nothing must be done on
// installation, and each user enables the user units.
func (r *release) info(p platform) *nfpm.Info {
	compression := fmt.Sprintf("gzip:%d", r.level)
	return &nfpm.Info{
		Name: "thoughtgate", Arch: p.arch, Platform: p.os,
		Version: r.number, VersionSchema: "none", Release: "1",
		Section: "utils", Priority: "optional",
		Maintainer: maintainer, Description: about, Homepage: homepage, License: "Apache-2.0",
		MTime: r.date, DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Recommends: []string{"python3"}, // for the extension pathguard
			RPM:        nfpm.RPM{BuildHost: "thoughtgate", Summary: summary, Packager: maintainer, Compression: compression},
			Deb:        nfpm.Deb{Compression: compression},
		},
	}
}

// pack writes files as a package into out. The library reads them from disk.
func (r *release) pack(packager nfpm.Packager, info *nfpm.Info, content []file, out string) error {
	dir, err := os.MkdirTemp("", "packages-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for i, f := range content {
		source := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(source, f.content, 0o600); err != nil {
			return err
		}
		c := &files.Content{
			Source: source, Destination: "/" + f.path,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: f.mode, MTime: r.date},
		}
		if f.license {
			c.Type = files.TypeRPMLicense
		}
		info.Contents = append(info.Contents, c)
	}
	// rpm does not remove folders that no package owns.
	if packager == nfpm.Packager(rpm.DefaultRPM) {
		folders := []string{
			"/usr/libexec/thoughtgate", "/usr/share/doc/thoughtgate", "/usr/share/doc/thoughtgate/docs",
			"/usr/share/doc/thoughtgate/docs/pictures", "/usr/share/licenses/thoughtgate",
		}
		for _, folder := range append(folders, extensionFolders(content)...) {
			info.Contents = append(info.Contents, &files.Content{
				Destination: folder, Type: files.TypeDir,
				FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o755, MTime: r.date},
			})
		}
	}
	// The name is computed from a copy, since that changes the architecture.
	name := *info
	f, err := os.Create(filepath.Join(out, packager.ConventionalFileName(&name)))
	if err != nil {
		return err
	}
	err = packager.Package(info, f)
	if closing := f.Close(); err == nil {
		err = closing
	}
	return err
}

// extensionFolders returns the folders of the extensions among the files.
func extensionFolders(content []file) []string {
	const in = "usr/libexec/thoughtgate/" + extensionsIn
	folders := []string{"/" + in}
	for _, f := range content {
		if dir := path.Dir(f.path); path.Dir(dir) == in && !slices.Contains(folders, "/"+dir) {
			folders = append(folders, "/"+dir)
		}
	}
	return folders
}

// debianChangelog returns the changelog of the Debian package, which only refers to that of
// ThoughtGate.
func (r *release) debianChangelog() []byte {
	return fmt.Appendf(nil, "thoughtgate (%s-1) unstable; urgency=medium\n\n  * Packaged by the project. What is new stands in changelog.gz.\n\n -- %s  %s\n",
		r.number, maintainer, r.date.Format(time.RFC1123Z))
}
