package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// In the order in which they are to be installed over each other.
var versions = []struct{ describe, want string }{
	{"0123456", "0.0.0~20261118110640.g0123456"},
	{"0123456-dirty", "0.0.0~20261118110640.g0123456+dirty"},
	{"v0.1.0-rc.1", "0.1.0~rc.1"},
	{"v0.1.0-rc.2", "0.1.0~rc.2"},
	{"v0.1.0-rc.2-3-gabcdef0", "0.1.0~rc.2+3.gabcdef0"},
	{"v0.1.0", "0.1.0"},
	{"v0.1.0-5-gabcdef0", "0.1.0+5.gabcdef0"},
	{"0.1.0-12-gabcdef0-dirty", "0.1.0+12.gabcdef0+dirty"},
	{"v0.1.1", "0.1.1"},
	{"v0.10.0", "0.10.0"},
}

func TestVersions(t *testing.T) {
	for _, test := range versions {
		if got, err := packageVersion(test.describe, testRelease().date); err != nil || got != test.want {
			t.Errorf("%s: %q, %v, want %q", test.describe, got, err, test.want)
		}
	}
	for _, bad := range []string{"", "unknown", "v1.2", "v1.2.3-beta", "1.2.3; rm", "v1.2.3-1"} {
		if got, err := packageVersion(bad, time.Time{}); err == nil {
			t.Errorf("%q is the version %q", bad, got)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	tool(t, "dpkg")
	for i := range versions[1:] {
		older, newer := versions[i].want, versions[i+1].want
		if err := exec.Command("dpkg", "--compare-versions", older+"-1", "lt", newer+"-1").Run(); err != nil {
			t.Errorf("dpkg: %s is not before %s: %v", older, newer, err)
		}
		if _, err := exec.LookPath("rpm"); err == nil {
			if got := ran(t, "rpm", "--eval", "%{lua:print(rpm.vercmp('"+older+"','"+newer+"'))}"); got != "-1\n" {
				t.Errorf("rpm: %s against %s: %q", older, newer, got)
			}
		}
	}
}

// few returns content that is packed quickly.
func few() ([]program, *texts) {
	programs := []program{
		{"tg-shim", "cmd/tg-shim", "libexec/thoughtgate", []byte("shim")}, {"tgctl", "cmd/tgctl", "bin", []byte("ctl")},
		{"thoughtgated", "cmd/thoughtgated", "bin", []byte("daemon")},
		{"scrubber", "extensions/scrubber", "libexec/thoughtgate/extensions/scrubber", []byte("scrubber")},
	}
	return programs, &texts{
		man:         []file{text("tgctl.1", []byte(".TH\n"))},
		completions: map[string][]byte{"bash": []byte("b"), "zsh": []byte("z"), "fish": []byte("f")},
		units:       []file{text("thoughtgated.service", []byte("[Service]\n"))},
		docs:        []file{text("CHANGELOG.md", []byte("# Changelog\n")), text("docs/a.md", []byte("a"))},
		license:     []byte("license"), copyright: []byte("copyright"), overrides: []byte("overrides"),
	}
}

// The same content gives the same bytes, whoever packs it, wherever and whenever.
func TestPackingIsReproducible(t *testing.T) {
	pack := func() map[string]string {
		out := t.TempDir()
		r := testRelease()
		programs, texts := few()
		if err := r.linuxPackages(here, programs, texts, []byte("notices"), out); err != nil {
			t.Fatal(err)
		}
		archive, err := r.archive("thoughtgate", forArchive(here, programs, texts, []byte("notices")))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(out, "archive"), archive, 0o644); err != nil {
			t.Fatal(err)
		}
		found := map[string]string{}
		for _, name := range tree(t, out)[1:] {
			if found[name], err = sumOf(filepath.Join(out, name)); err != nil {
				t.Fatal(err)
			}
		}
		return found
	}
	first := pack()
	defer func(zone *time.Location, mask int) { time.Local = zone; syscall.Umask(mask) }(time.Local, syscall.Umask(0o077))
	time.Local = time.FixedZone("far away", 13*3600)
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("HOSTNAME", "elsewhere")
	t.Setenv("SOURCE_DATE_EPOCH", "1")
	if second := pack(); len(first) != 3 || !maps.Equal(first, second) {
		t.Errorf("first %v\nthen  %v", first, second)
	}
}

// Nothing that is created contains the path of the build.
func TestNoPathOfTheBuilder(t *testing.T) {
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ran(t, "tar", "-C", dir, "-xzf", made(t, ".tar.gz"))
	cache := strings.TrimSpace(ran(t, "go", "env", "GOMODCACHE"))
	looked := 0
	for _, name := range tree(t, dir) {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // a folder
		}
		looked++
		for _, path := range []string{top, cache, filepath.Join(os.TempDir(), "packages-")} {
			if bytes.Contains(content, []byte(path)) {
				t.Errorf("%s holds the path %s", name, path)
			}
		}
	}
	if looked < 60 {
		t.Errorf("looked at %d files", looked)
	}
}

// The bill of materials is valid and lists the modules that the programs say they are linked
// with.
func TestBillOfMaterials(t *testing.T) {
	content, err := os.ReadFile(made(t, ".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := json.Unmarshal(content, &doc); err != nil {
		t.Fatal(err)
	}
	if err := bomSchema(t).Validate(doc); err != nil {
		t.Errorf("not as the schema of CycloneDX 1.6 has it: %v", err)
	}
	var b cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(content), cdx.BOMFileFormatJSON).Decode(&b); err != nil {
		t.Fatal(err)
	}
	sums, refs := map[string]string{}, map[string]bool{b.Metadata.Component.BOMRef: true}
	for _, c := range *b.Components {
		refs[c.BOMRef] = true
		if c.Hashes != nil {
			sums[c.Name] = (*c.Hashes)[0].Value
		}
	}
	needs := map[string][]string{}
	for _, d := range *b.Dependencies {
		needs[d.Ref] = *d.Dependencies
		for _, ref := range append(needs[d.Ref], d.Ref) {
			if !refs[ref] {
				t.Errorf("%s is needed and not listed", ref)
			}
		}
	}
	dir := t.TempDir()
	ran(t, "tar", "-C", dir, "--strip-components=1", "-xzf", made(t, ".tar.gz"))
	for source, path := range map[string]string{
		"cmd/tgctl": "bin/tgctl", "cmd/thoughtgated": "bin/thoughtgated", "cmd/tg-shim": "libexec/thoughtgate/tg-shim", "cmd/tg-fleet": "libexec/thoughtgate/tg-fleet",
		"extensions/quota": "libexec/thoughtgate/extensions/quota/quota", "extensions/scrubber": "libexec/thoughtgate/extensions/scrubber/scrubber",
	} {
		name := filepath.Base(source)
		if sum, err := sumOf(filepath.Join(dir, path)); err != nil || sums[name] != sum {
			t.Errorf("%s: the sum is %s, in the bill %s (%v)", name, sum, sums[name], err)
		}
		var want []string
		for line := range strings.Lines(ran(t, "go", "version", "-m", filepath.Join(dir, path))) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] == "dep" && fields[1] != mainModule {
				want = append(want, purl(&debug.Module{Path: fields[1], Version: fields[2]}))
			}
		}
		got := slices.DeleteFunc(needs[b.Metadata.Component.BOMRef+"#"+source], func(ref string) bool { return strings.HasPrefix(ref, "pkg:golang/std@1.") })
		slices.Sort(want)
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: in the bill %v, in the program %v", name, got, want)
		}
	}
}

// bomSchema returns the schema from the module that writes the bill.
func bomSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	dir := strings.TrimSpace(ran(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	c := jsonschema.NewCompiler()
	for url, name := range map[string]string{
		"http://cyclonedx.org/schema/bom-1.6.schema.json":  "bom-1.6.schema.json",
		"http://cyclonedx.org/schema/spdx.schema.json":     "spdx.schema.json",
		"http://cyclonedx.org/schema/jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		content, err := os.ReadFile(filepath.Join(dir, "schema", name))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.AddResource(url, doc); err != nil {
			t.Fatal(err)
		}
	}
	schema, err := c.Compile("http://cyclonedx.org/schema/bom-1.6.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func TestFormula(t *testing.T) {
	dir := t.TempDir()
	archives := map[platform]string{}
	for i, p := range []platform{{"darwin", "arm64"}, {"darwin", "amd64"}, {"linux", "arm64"}, {"linux", "amd64"}} {
		archives[p] = "thoughtgate-1.2.3-" + p.os + "-" + p.arch + ".tar.gz"
		if err := os.WriteFile(filepath.Join(dir, archives[p]), []byte{byte(i)}, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := testRelease().formula(archives, dir); err != nil {
		t.Fatal(err)
	}
	formula := filepath.Join(dir, "thoughtgate.rb")
	text, err := os.ReadFile(formula)
	if err != nil {
		t.Fatal(err)
	}
	for p, name := range archives {
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if want := homepage + "/releases/download/v1.2.3/" + name + "\"\n      sha256 \"" + sum + "\"\n"; !strings.Contains(string(text), want) {
			t.Errorf("%v: the formula lacks %q:\n%s", p, want, text)
		}
	}
	delete(archives, platform{"darwin", "arm64"})
	none := t.TempDir()
	if err := testRelease().formula(archives, none); err != nil || len(tree(t, none)) > 1 {
		t.Errorf("without an archive for each platform: %v, %v", err, tree(t, none))
	}
	tool(t, "ruby")
	ran(t, "ruby", "-wc", formula)
}

var against = flag.String("against", "", "a folder with packages of this commit, which TestMadeElsewhere makes again")

// A build elsewhere, without a build cache, has the same checksums. It takes a quarter of an
// hour: `make packages-check`.
func TestMadeElsewhere(t *testing.T) {
	if *against == "" {
		t.Skip("takes long: make packages-check")
	}
	there := filepath.Join(t.TempDir(), "a folder", "with another name")
	ran(t, "git", "clone", "-q", "../..", there)
	cmd := exec.Command("make", "-s", "packages")
	cmd.Dir = there
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, "MAKE") || strings.HasPrefix(s, "MFLAGS=") }),
		"GOCACHE="+t.TempDir(), "TMPDIR="+t.TempDir(), "TZ=Pacific/Auckland", "LC_ALL=C")
	defer syscall.Umask(syscall.Umask(0o077))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make packages: %v\n%s", err, out)
	}
	sums := func(dir string) string {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	first, second := sums(*against), sums(filepath.Join(there, "dist"))
	t.Logf("made elsewhere:\n%s", second)
	if strings.Count(first, "\n") != 13 || first != second {
		t.Errorf("made here:\n%s", first)
	}
}
