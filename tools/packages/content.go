package main

import (
	"bytes"
	"compress/gzip"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// file is a file of an archive or a package.
type file struct {
	path    string // with slashes, relative to the top of the archive or the root
	mode    fs.FileMode
	content []byte
	license bool // rpm marks it as a license
}

func text(path string, content []byte) file { return file{path: path, mode: 0o644, content: content} }

// installed returns the programs, pages and completions, with their places below a prefix. zsh
// and fish have folders of their own for completions from packages.
func installed(programs []program, t *texts, zsh, fish string) []file {
	var files []file
	for _, p := range programs {
		files = append(files, file{path: path.Join(p.place, p.name), mode: 0o755, content: p.content})
	}
	files = append(files, t.extensions...)
	for _, page := range t.man {
		files = append(files, text("share/man/man"+strings.TrimPrefix(path.Ext(page.path), ".")+"/"+page.path, page.content))
	}
	return append(files,
		text("share/bash-completion/completions/tgctl", t.completions["bash"]),
		text(path.Join("share/zsh", zsh, "_tgctl"), t.completions["zsh"]),
		text(path.Join("share/fish", fish, "tgctl.fish"), t.completions["fish"]))
}

// forArchive returns the files of an archive. bin, libexec and share can be copied to any
// prefix; the units are separate, since their paths must be changed.
func forArchive(p platform, programs []program, t *texts, notices []byte) []file {
	files := installed(programs, t, "site-functions", "vendor_completions.d")
	files = append(files, t.docs...)
	files = append(files, text("LICENSE", t.license), text("THIRD-PARTY-NOTICES", notices))
	folder, units := "contrib/systemd/", t.units
	if p.os == "darwin" {
		folder, units = "contrib/launchd/", t.launchd
	}
	for _, unit := range units {
		unit.path = folder + unit.path
		files = append(files, unit)
	}
	return ordered(files)
}

// forPackage returns the files that deb and rpm packages have in common, relative to the root.
func forPackage(programs []program, t *texts, zsh string) []file {
	files := installed(programs, t, zsh, "vendor_completions.d")
	for i, f := range files {
		if strings.HasPrefix(f.path, "share/man/") {
			files[i] = text(f.path+".gz", zipped(f.content))
		}
	}
	for _, doc := range t.docs {
		if doc.path != "CHANGELOG.md" { // each package format has its own place for it
			doc.path = "share/doc/thoughtgate/" + doc.path
			files = append(files, doc)
		}
	}
	for _, unit := range t.units {
		unit.path = "lib/systemd/user/" + unit.path
		files = append(files, unit)
	}
	files = append(files, text("lib/systemd/user-preset/90-thoughtgate.preset", preset(t.units)))
	for i := range files {
		files[i].path = "usr/" + files[i].path
	}
	return files
}

// preset returns a systemd preset that disables all units, since a system may otherwise enable
// what is installed.
func preset(units []file) []byte {
	lines := "# Whether agents are governed is for each user to say.\n"
	for _, unit := range units {
		lines += "disable " + unit.path + "\n"
	}
	return []byte(lines)
}

// forDeb adds the files that Debian requires.
func (r *release) forDeb(programs []program, t *texts, notices []byte) []file {
	files := forPackage(programs, t, "vendor-completions")
	for name, content := range map[string][]byte{
		"usr/share/doc/thoughtgate/copyright":              t.copyright,
		"usr/share/doc/thoughtgate/changelog.gz":           zipped(changelog(t)),
		"usr/share/doc/thoughtgate/changelog.Debian.gz":    zipped(r.debianChangelog()),
		"usr/share/doc/thoughtgate/THIRD-PARTY-NOTICES.gz": zipped(notices),
		"usr/share/lintian/overrides/thoughtgate":          t.overrides,
	} {
		files = append(files, text(name, content))
	}
	return ordered(files)
}

// forRPM adds the files that Fedora requires.
func forRPM(programs []program, t *texts, notices []byte) []file {
	files := forPackage(programs, t, "site-functions")
	files = append(files, text("usr/share/doc/thoughtgate/CHANGELOG.md", changelog(t)))
	for name, content := range map[string][]byte{"LICENSE": t.license, "THIRD-PARTY-NOTICES": notices} {
		licence := text("usr/share/licenses/thoughtgate/"+name, content)
		licence.license = true
		files = append(files, licence)
	}
	return ordered(files)
}

func changelog(t *texts) []byte {
	i := slices.IndexFunc(t.docs, func(f file) bool { return f.path == "CHANGELOG.md" })
	return t.docs[i].content
}

// ordered sorts files by path: maps and file systems return them in varying order.
func ordered(files []file) []file {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files
}

// zipped compresses content as much as possible, without a name and a time.
func zipped(content []byte) []byte { return zippedTo(content, gzip.BestCompression) }

func zippedTo(content []byte, level int) []byte {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		panic(err) // the level is valid
	}
	if _, err := w.Write(content); err != nil {
		panic(err) // a buffer does not fail
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
