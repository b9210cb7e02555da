package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// mainModule is the module of the programs.
const mainModule = "github.com/thoughtgate/thoughtgated"

// linked returns the modules that a program contains, according to its build information, with
// the version of Go as a module named std.
func linked(p program) ([]*debug.Module, error) {
	info, err := buildinfo.Read(bytes.NewReader(p.content))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(info.GoVersion, "go"), " ")
	modules := []*debug.Module{{Path: "std", Version: version}}
	for _, m := range info.Deps {
		if m.Path == mainModule { // ours, in a program with a module of its own
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, m)
	}
	return modules, nil
}

func purl(m *debug.Module) string { return "pkg:golang/" + m.Path + "@" + m.Version }

// bom returns the bill of materials of a platform's programs, as CycloneDX 1.6: each program
// with its hash and its modules. All data is read from the programs themselves, except which
// module requires which, which comes from the module graphs.
func (r *release) bom(ctx context.Context, p platform, programs []program) ([]byte, error) {
	root := "pkg:golang/" + mainModule + "@v" + r.number
	var components []cdx.Component
	var names []string
	needs := map[string][]string{} // by reference
	all := map[string]*debug.Module{}
	graphs := map[string]map[string]*debug.Module{} // of each module of the repository, by path
	for _, one := range programs {
		ref := root + "#" + one.source
		names = append(names, ref)
		components = append(components, cdx.Component{
			BOMRef: ref, Type: cdx.ComponentTypeApplication, Name: one.name, Version: r.number,
			Hashes: &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(one.content))}},
		})
		inside, err := linked(one)
		if err != nil {
			return nil, err
		}
		of := r.moduleOf(one)
		if graphs[of] == nil {
			graphs[of] = map[string]*debug.Module{}
		}
		for _, m := range inside {
			all[purl(m)], graphs[of][m.Path] = m, m
			needs[ref] = append(needs[ref], purl(m))
		}
	}
	needs[root] = names
	for _, ref := range slices.Sorted(maps.Keys(all)) {
		components = append(components, library(all[ref]))
	}
	for of, modules := range graphs {
		if err := r.graph(ctx, of, modules, needs); err != nil {
			return nil, err
		}
	}
	b := cdx.NewBOM()
	b.SerialNumber = r.serial(p, programs)
	b.Metadata = &cdx.Metadata{
		Timestamp: r.date.Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: root, Type: cdx.ComponentTypeApplication, Name: "thoughtgate", Version: r.number, PackageURL: root,
			Supplier: &cdx.OrganizationalEntity{Name: "The ThoughtGate authors", URL: &[]string{homepage}},
			Licenses: &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}},
		},
		Properties: &[]cdx.Property{{Name: "platform", Value: p.os + "/" + p.arch}},
	}
	b.Components = &components
	b.Dependencies = dependencies(needs)
	var out bytes.Buffer
	if err := cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(b, cdx.SpecVersion1_6); err != nil {
		return nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return out.Bytes(), nil
}

func library(m *debug.Module) cdx.Component {
	c := cdx.Component{BOMRef: purl(m), Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl(m)}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return c
}

// graph adds to needs which of modules requires which, according to a module of the repository.
func (r *release) graph(ctx context.Context, of string, modules map[string]*debug.Module, needs map[string][]string) error {
	out, err := output(r.command(ctx, "go", "-C", of, "mod", "graph"))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(out)) {
		from, to, _ := strings.Cut(strings.TrimSpace(line), " ")
		// Requirements of versions that are not linked do not count. What is required is linked
		// in the one version that was selected.
		path, version, _ := strings.Cut(from, "@")
		source := modules[path]
		path, _, _ = strings.Cut(to, "@")
		target := modules[path]
		if source == nil || target == nil || source.Version != version {
			continue
		}
		if ref := purl(source); !slices.Contains(needs[ref], purl(target)) {
			needs[ref] = append(needs[ref], purl(target))
		}
	}
	return nil
}

func dependencies(needs map[string][]string) *[]cdx.Dependency {
	var all []cdx.Dependency
	for _, ref := range slices.Sorted(maps.Keys(needs)) {
		on := slices.Sorted(slices.Values(needs[ref]))
		all = append(all, cdx.Dependency{Ref: ref, Dependencies: &on})
	}
	return &all
}

// serial returns the serial number of the bill, which is the same for the same programs only.
func (r *release) serial(p platform, programs []program) string {
	h := sha256.New()
	fmt.Fprintln(h, r.number, p.os, p.arch)
	for _, one := range programs {
		fmt.Fprintf(h, "%x\n", sha256.Sum256(one.content))
	}
	id := h.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x80 // version 8: custom
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
