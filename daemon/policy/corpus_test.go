package policy

import (
	"archive/tar"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"
	"github.com/cedar-policy/cedar-go/x/exp/schema"
	exptypes "github.com/cedar-policy/cedar-go/x/exp/types"

	"github.com/thoughtgate/thoughtgated/daemon/config"
)

// corpusCase is one file of the Cedar project's integration tests: policies, entities, and
// requests with their expected decisions.
type corpusCase struct {
	Schema   string `json:"schema"`
	Policies string `json:"policies"`
	Entities string `json:"entities"`
	Requests []struct {
		Description string           `json:"description"`
		Principal   cedar.EntityUID  `json:"principal"`
		Action      cedar.EntityUID  `json:"action"`
		Resource    cedar.EntityUID  `json:"resource"`
		Context     cedar.Record     `json:"context"`
		Decision    cedar.Decision   `json:"decision"`
		Reasons     []cedar.PolicyID `json:"reason"`
		Errors      []cedar.PolicyID `json:"errors"`
	} `json:"requests"`
}

// corpus reads the archive that is included in the module cedar-go.
func corpus(t *testing.T) map[string][]byte {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/cedar-policy/cedar-go").Output()
	if err != nil || strings.TrimSpace(string(out)) == "" {
		t.Skipf("go can't tell where the module cedar-go lies (%v), and Cedar's integration tests lie in it", err)
	}
	f, err := os.Open(filepath.Join(strings.TrimSpace(string(out)), "corpus-tests.tar.gz"))
	if err != nil {
		t.Fatalf("the module cedar-go has no integration tests any more: %v", err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(unzipped); ; {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if files[h.Name], err = io.ReadAll(archive); err != nil {
			t.Fatal(err)
		}
	}
}

// The Cedar project's own tests pass in this package: policies are read within its limits and
// found by its index, and an error denies.
func TestCorpus(t *testing.T) {
	files := corpus(t)
	cases, requests, refusals := 0, 0, 0
	for _, name := range sortedKeys(files) {
		if !strings.HasSuffix(name, ".json") || strings.HasSuffix(name, ".entities.json") {
			continue
		}
		var c corpusCase
		if err := json.Unmarshal(files[name], &c); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s := corpusSet(t, name, files[c.Policies])
		entities := corpusEntities(t, name, files[c.Schema], files[c.Entities])
		cases++
		for _, r := range c.Requests {
			requests++
			if len(r.Errors) > 0 {
				refusals++
			}
			found := s.index.candidates(withAncestors(entities, r.Action), withAncestors(entities, r.Resource))
			request := cedar.Request{Principal: r.Principal, Action: r.Action, Resource: r.Resource, Context: r.Context}
			decision, diagnostic := cedar.Authorize(found, entities, request)
			if decision != r.Decision || !sameIDs(reasonIDs(diagnostic), r.Reasons) || !sameIDs(errorIDs(diagnostic), r.Errors) {
				t.Errorf("%s: %s: the index finds other policies: got %v %v, want %v %v %v", name, r.Description, decision, diagnostic, r.Decision, r.Reasons, r.Errors)
			}
			got, err := s.decide(found, entities, request)
			if why := disagreement(s, got, err, r.Decision, r.Reasons, r.Errors); why != "" {
				t.Errorf("%s: %s: %s", name, r.Description, why)
			}
		}
	}
	t.Logf("%d cases, %d requests, of which %d are refused because a policy fails", cases, requests, refusals)
	if cases < 1000 || requests < 8000 || refusals < 100 {
		t.Error("is this the whole of it?")
	}
}

// corpusSet returns a set of policies without requiring the names of this package's entities.
func corpusSet(t *testing.T, name string, text []byte) *Set {
	t.Helper()
	if d := config.CheckText(name, text); d != nil {
		t.Fatal(d)
	}
	if at := tooDeep(text); at >= 0 {
		t.Fatalf("%s: nested too deep at byte %d", name, at)
	}
	list, err := cedar.NewPolicyListFromBytes(name, text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	s := &Set{byID: map[string]*policy{}}
	for i, c := range list {
		p := newPolicy(c)
		p.id, p.order = fmt.Sprint("policy", i), i
		s.policies = append(s.policies, p)
		s.byID[p.id] = p
	}
	s.index = newIndex(s.policies)
	return s
}

func corpusEntities(t *testing.T, name string, schemaText, text []byte) types.EntityMap {
	t.Helper()
	var s schema.Schema
	if err := s.UnmarshalCedar(schemaText); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	resolved, err := s.Resolve()
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	var entities exptypes.EntityMap
	if err := entities.UnmarshalJSONWithSchema(text, resolved); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return types.EntityMap(entities)
}

// withAncestors returns an entity and all its ancestors.
func withAncestors(entities types.EntityMap, uid cedar.EntityUID) []cedar.EntityUID {
	all := []cedar.EntityUID{uid}
	for i := 0; i < len(all); i++ {
		for parent := range entities[all[i]].Parents.All() {
			if !slices.Contains(all, parent) {
				all = append(all, parent)
			}
		}
	}
	return all
}

// disagreement describes how the decision differs from Cedar's.
func disagreement(s *Set, got determining, err error, decision cedar.Decision, reasons, failed []cedar.PolicyID) string {
	switch {
	case len(failed) > 0 && err == nil:
		return fmt.Sprintf("it is not refused, though %v fail", failed)
	case len(failed) > 0:
		first := slices.MinFunc(failed, func(a, b cedar.PolicyID) int { return s.byID[string(a)].order - s.byID[string(b)].order })
		if !strings.Contains(err.Error(), fmt.Sprintf("%q", string(first))) || len(failed) > 1 != strings.Contains(err.Error(), fmt.Sprintf("; %d more failed", len(failed)-1)) {
			return fmt.Sprintf("%v fail, and it is refused since %v", failed, err)
		}
		return ""
	case err != nil:
		return fmt.Sprintf("it is refused since %v, and nothing fails", err)
	case decision == cedar.Allow && (len(got.forbids) > 0 || !sameIDs(ids(got.permits), reasons)):
		return fmt.Sprintf("got %v, want permits %v", got, reasons)
	case decision == cedar.Deny && (len(got.permits) > 0 || !sameIDs(ids(got.forbids), reasons)):
		return fmt.Sprintf("got %v, want forbids %v", got, reasons)
	}
	return ""
}

func sameIDs(got []string, want []cedar.PolicyID) bool {
	var texts []string
	for _, id := range want {
		texts = append(texts, string(id))
	}
	got = slices.Clone(got)
	slices.Sort(got)
	slices.Sort(texts)
	return slices.Equal(slices.Compact(got), slices.Compact(texts))
}
