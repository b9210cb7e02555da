package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
)

var bg = context.Background()

func TestDebHolds(t *testing.T) {
	tool(t, "dpkg-deb")
	var got []string
	line := regexp.MustCompile(`^(-\S+) +root/root +\d+ \S+ \S+ \.(/.*)$`)
	folder := regexp.MustCompile(`^drwxr-xr-x root/root `)
	for text := range strings.Lines(ran(t, "dpkg-deb", "-c", made(t, ".deb"))) {
		text = strings.TrimSuffix(text, "\n")
		if m := line.FindStringSubmatch(text); m != nil {
			got = append(got, m[1]+" "+m[2])
		} else if !folder.MatchString(text) {
			t.Errorf("neither a file nor a folder of root's: %s", text)
		}
	}
	differ(t, summedUp(got), expected(t,
		"-rw-r--r-- /usr/share/doc/thoughtgate/THIRD-PARTY-NOTICES.gz",
		"-rw-r--r-- /usr/share/doc/thoughtgate/changelog.Debian.gz",
		"-rw-r--r-- /usr/share/doc/thoughtgate/changelog.gz",
		"-rw-r--r-- /usr/share/doc/thoughtgate/copyright",
		"-rw-r--r-- /usr/share/lintian/overrides/thoughtgate",
		"-rw-r--r-- /usr/share/zsh/vendor-completions/_tgctl",
	))
	control := ran(t, "dpkg-deb", "-f", made(t, ".deb"), "Package", "Version", "Architecture")
	if want := "Package: thoughtgate\nVersion: 1.2.3-1\nArchitecture: " + runtime.GOARCH + "\n"; control != want {
		t.Errorf("control: %q, want %q", control, want)
	}
	if inside := ran(t, "dpkg-deb", "--ctrl-tarfile", made(t, ".deb")); strings.Contains(inside, "postinst") {
		t.Error("the package has a script; nothing has to be done when it comes or goes")
	}
}

func TestRPMHolds(t *testing.T) {
	tool(t, "rpm")
	var got []string
	line := regexp.MustCompile(`^(-\S+) +1 root +root +\d+ .{12} (/.*)$`)
	folder := regexp.MustCompile(`^drwxr-xr-x +\d+ root +root +\d+ .{12} (/.*)$`)
	var folders []string
	for text := range strings.Lines(ran(t, "rpm", "-qlvp", made(t, ".rpm"))) {
		text = strings.TrimSuffix(text, "\n")
		if m := line.FindStringSubmatch(text); m != nil {
			got = append(got, m[1]+" "+m[2])
		} else if m := folder.FindStringSubmatch(text); m != nil {
			folders = append(folders, m[1])
		} else {
			t.Errorf("neither a file nor a folder of root's: %s", text)
		}
	}
	differ(t, summedUp(got), expected(t,
		"-rw-r--r-- /usr/share/doc/thoughtgate/CHANGELOG.md",
		"-rw-r--r-- /usr/share/licenses/thoughtgate/LICENSE",
		"-rw-r--r-- /usr/share/licenses/thoughtgate/THIRD-PARTY-NOTICES",
		"-rw-r--r-- /usr/share/zsh/site-functions/_tgctl",
	))
	// A package must not own folders of other packages, and must not leave its own behind.
	differ(t, folders, []string{"/usr/libexec/thoughtgate", "/usr/share/doc/thoughtgate", "/usr/share/doc/thoughtgate/docs",
		"/usr/share/doc/thoughtgate/docs/pictures", "/usr/share/licenses/thoughtgate",
		"/usr/libexec/thoughtgate/extensions", "/usr/libexec/thoughtgate/extensions/pathguard", "/usr/libexec/thoughtgate/extensions/quota",
		"/usr/libexec/thoughtgate/extensions/scrubber"})
	said := ran(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION} %{RELEASE} %{BUILDHOST} %{BUILDTIME}\n", made(t, ".rpm"))
	if want := "thoughtgate 1.2.3 1 thoughtgate 1795000000\n"; said != want {
		t.Errorf("said of itself: %q, want %q", said, want)
	}
}

func TestLintianHasNothingToSay(t *testing.T) {
	tool(t, "lintian")
	out, err := exec.Command("lintian", "--allow-root", "--display-info", "--pedantic", "--fail-on", "error,warning", made(t, ".deb")).Output()
	if err != nil || len(out) > 0 {
		t.Errorf("%v\n%s", err, out)
	}
}

// Removing a package removes all its files, and an upgrade replaces the previous files.
func TestDebComesAndGoes(t *testing.T) {
	tool(t, "dpkg")
	root := t.TempDir()
	for _, dir := range []string{"info", "updates"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg/status"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	dpkg := func(args ...string) {
		t.Helper()
		ran(t, "dpkg", append([]string{"--root=" + root, "--force-not-root", "--force-script-chrootless", "--log=/dev/null"}, args...)...)
	}
	before := tree(t, root, "var/lib/dpkg")
	for _, goes := range []string{"--remove", "--purge"} {
		dpkg("--install", made(t, ".deb"))
		dpkg("--install", made(t, ".deb"))
		if installed := tree(t, root, "var/lib/dpkg"); len(installed) < 60 {
			t.Fatalf("installed are %d files and folders: %v", len(installed), installed)
		}
		works(t, filepath.Join(root, "usr"))
		dpkg(goes, "thoughtgate")
		differ(t, tree(t, root, "var/lib/dpkg"), before)
	}
	if known, err := filepath.Glob(filepath.Join(root, "var/lib/dpkg/info/thoughtgate*")); err != nil || len(known) > 0 {
		t.Errorf("after a purge dpkg knows %v (%v)", known, err)
	}
}

func TestRPMComesAndGoes(t *testing.T) {
	tool(t, "rpm")
	if os.Getuid() != 0 {
		t.Skip("rpm installs below another root for root alone")
	}
	root := t.TempDir()
	rpm := func(args ...string) {
		t.Helper()
		ran(t, "rpm", append([]string{"--root", root, "--dbpath", "/var/lib/rpm"}, args...)...)
	}
	rpm("--install", "--nodeps", "--ignoreos", made(t, ".rpm"))
	works(t, filepath.Join(root, "usr"))
	if installed := tree(t, root, "var"); len(installed) < 60 {
		t.Fatalf("installed are %d files and folders: %v", len(installed), installed)
	}
	rpm("--erase", "thoughtgate")
	// rpm writes its database there, and system folders stay, as if other packages had files in
	// them.
	for _, left := range tree(t, root, "var") {
		if info, err := os.Stat(filepath.Join(root, left)); err != nil || !info.IsDir() || strings.Contains(left, "thoughtgate") {
			t.Errorf("left behind: %s", left)
		}
	}
}

// An archive can be unpacked and used in place, and copied to a prefix.
func TestArchiveUnpacksAndRuns(t *testing.T) {
	path := made(t, ".tar.gz")
	name := strings.TrimSuffix(filepath.Base(path), ".tar.gz")
	var got []string
	for _, h := range entries(t, path) {
		got = append(got, strings.TrimPrefix(h.Name, name+"/"))
		if h.Uid != 0 || h.Gid != 0 || h.Uname != "root" || h.ModTime.Unix() != 1795000000 {
			t.Errorf("%s is of %s(%d):%s(%d) and %v", h.Name, h.Uname, h.Uid, h.Gname, h.Gid, h.ModTime)
		}
	}
	for _, want := range []string{"bin/tgctl", "bin/thoughtgated", "libexec/thoughtgate/tg-shim", "libexec/thoughtgate/tg-fleet", "libexec/thoughtgate/extensions/scrubber/scrubber", "LICENSE", "THIRD-PARTY-NOTICES",
		"README.md", "docs/policies.md", "contrib/systemd/thoughtgated.service", "share/man/man1/tgctl-wrap.1", "share/man/man5/thoughtgate.yaml.5",
		"share/bash-completion/completions/tgctl", "share/zsh/site-functions/_tgctl", "share/fish/vendor_completions.d/tgctl.fish"} {
		if !slices.Contains(got, want) {
			t.Errorf("the archive lacks %s: %v", want, got)
		}
	}
	if !slices.IsSorted(got) {
		t.Errorf("not in order: %v", got)
	}
	tool(t, "tar")
	dir := t.TempDir()
	ran(t, "tar", "-C", dir, "-xzf", path)
	works(t, filepath.Join(dir, name))
	prefix := t.TempDir()
	for _, part := range []string{"bin", "libexec", "share"} {
		ran(t, "cp", "-r", filepath.Join(dir, name, part), prefix)
	}
	works(t, prefix)
}

// The instructions for archives in docs/install.md lead to working programs and to units that
// start them.
func TestDocumentedArchive(t *testing.T) {
	if runtime.GOOS != here.os {
		t.Skip("the archive of the test is for Linux")
	}
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, _ := strings.Cut(string(page), "\n## An archive\n")
	part, _, _ = strings.Cut(part, "\n## ")
	path := made(t, ".tar.gz")
	var script strings.Builder
	for line := range strings.Lines(part) {
		if strings.HasPrefix(line, "$ ") || strings.HasPrefix(line, "> ") {
			script.WriteString(line[2:])
		}
	}
	text := strings.ReplaceAll(script.String(), "thoughtgate-0.1.0-linux-amd64", strings.TrimSuffix(filepath.Base(path), ".tar.gz"))
	if !strings.Contains(text, "sed ") {
		t.Fatalf("the page says\n%s", text)
	}
	home := t.TempDir()
	cmd := exec.Command("sh", "-euc", "systemctl() { :; }\ntgctl() { :; }\n"+text)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "HOME="+home)
	ran(t, "cp", path, cmd.Dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, text, out)
	}
	prefix := filepath.Join(home, ".local")
	works(t, prefix)
	service, err := os.ReadFile(filepath.Join(prefix, "share/systemd/user/tgctl-notify.service"))
	if err != nil || !strings.Contains(string(service), "\nExecStart="+prefix+"/bin/tgctl notify --no-start\n") {
		t.Errorf("%v\n%s", err, service)
	}
}

// works runs the programs below prefix. If tgctl prints the schema, it has found the daemon's
// program; it searches for tg-shim in the same way.
func works(t *testing.T, prefix string) {
	t.Helper()
	if runtime.GOOS != here.os {
		return
	}
	tgctl := filepath.Join(prefix, "bin/tgctl")
	if got := ran(t, tgctl, "version"); !strings.HasPrefix(got, "tgctl 1.2.3 (") {
		t.Errorf("tgctl version: %q", got)
	}
	if got := ran(t, filepath.Join(prefix, "libexec/thoughtgate/tg-shim"), "--version"); got != "tg-shim 1.2.3\n" {
		t.Errorf("tg-shim --version: %q", got)
	}
	if got := ran(t, tgctl, "policy", "schema"); !strings.Contains(got, `"thoughtgate.yaml"`) {
		t.Errorf("tgctl policy schema: %q", got)
	}
}

func TestSums(t *testing.T) {
	tool(t, "sha256sum")
	sums := made(t, "SHA256SUMS")
	cmd := exec.Command("sha256sum", "-c", "SHA256SUMS")
	cmd.Dir = filepath.Dir(sums)
	out, err := cmd.CombinedOutput()
	if want := 4; err != nil || strings.Count(string(out), ": OK\n") != want {
		t.Errorf("%v, want %d right:\n%s", err, want, out)
	}
}

// The manually written pages contain each option and variable that the programs' help contains.
func TestPagesNameWhatHelpNames(t *testing.T) {
	if runtime.GOOS != here.os {
		t.Skip("the programs of the test are for Linux")
	}
	tool(t, "tar")
	dir := t.TempDir()
	ran(t, "tar", "-C", dir, "--strip-components=1", "-xzf", made(t, ".tar.gz"))
	for program, page := range map[string]string{"libexec/thoughtgate/tg-shim": "man1/tg-shim.1", "bin/thoughtgated": "man8/thoughtgated.8"} {
		text, err := os.ReadFile(filepath.Join(dir, "share/man", page))
		if err != nil {
			t.Fatal(err)
		}
		written := strings.ReplaceAll(string(text), `\-`, "-")
		if !strings.Contains(written, `"2026-11-18" "ThoughtGate 1.2.3"`) {
			t.Errorf("%s is not stamped:\n%s", page, written)
		}
		names := regexp.MustCompile(`--[a-z][a-z-]+|THOUGHTGATE_[A-Z]+`).FindAllString(ran(t, filepath.Join(dir, program), "--help"), -1)
		if len(names) < 5 {
			t.Errorf("%s --help names %v", program, names)
		}
		for _, name := range names {
			if !strings.Contains(written, name) {
				t.Errorf("%s lacks %s, which --help names", page, name)
			}
		}
	}
}

// The units start programs where the packages install them.
func TestUnitsStartWhatIsInstalled(t *testing.T) {
	texts := &texts{}
	if err := testRelease().read(texts); err != nil {
		t.Fatal(err)
	}
	starts := 0
	for _, unit := range texts.units {
		for _, path := range regexp.MustCompile(`(?m)^Exec\w+=[-@:+!]*(/\S+)`).FindAllStringSubmatch(string(unit.content), -1) {
			starts++
			if path[1] != "/usr/bin/thoughtgated" && path[1] != "/usr/bin/tgctl" {
				t.Errorf("%s starts %s", unit.path, path[1])
			}
		}
	}
	if starts < 2 {
		t.Errorf("the units start %d programs", starts)
	}
	if got := string(preset(texts.units)); !strings.HasSuffix(got, "\ndisable thoughtgated.service\ndisable thoughtgated.socket\n") {
		t.Errorf("the preset:\n%s", got)
	}
}
