package policy

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/daemon/gate"
)

// pageCalls has calls and their outcomes for each configuration that a page other than
// docs/policies.md shows, in the format of that page.
var pageCalls = map[string]string{
	"README.md": `
files  tool read_file                 {}  forward
files  tool write_file                {}  ask
files  tool delete_file               {}  deny
chat   tool post with secret          {}  ask
files  tool write_file with secret    {}  ask
files  tool delete_file with secret   {}  ask
files  tool read_file with secret-place  {}  ask`,
	"docs/agents.md": `
agent  tool shell                 {}  ask
agent  tool write                 {}  forward
agent  tool write with destroys   {}  ask
files  tool shell                 {}  forward`,
	"docs/metrics.md": `
files  tool write_file              {}  forward
files  tool write_file with secret  {}  ask`,
	"docs/dashboard.md": `
files  tool write_file             {}  ask
files  tool read_file              {}  forward`,
	"docs/notifications.md": `
files  tool write_file             {}  ask
files  tool read_file              {}  forward`,
	"docs/phone.md": `
files  tool write_file             {}  ask me
files  tool read_file              {}  forward`,
	"docs/processes.md": `
docs   tool search             {}  hidden
files  tool write_file         {}  forward`, // hidden: it is another program's name
	"docs/remote-servers.md": `
github  tool search            {}  hidden
files   tool read_file         {}  forward`, // hidden: it is at another address, if at any
	"docs/quickstart.md": `
files  tool read_file          {}  forward
files  tool write_file         {}  ask
files  tool delete_file        {}  deny
chat   tool post with secret   {}  ask`,
	"docs/approvals.md": `
github  tool delete_repo  {}  ask
github  tool read_repo    {}  forward`,
	"docs/slack.md": `
cloud  tool deploy_app  {}  ask ops
cloud  tool list_apps   {}  forward`,
	"docs/tools.md": `
github  tool read_repo                {}  forward
github  tool delete_repo with acts    {}  ask`,
	"docs/headless-agents.md": `
fixer  tool fs/write_text_file with outside  {}  deny
fixer  tool fs/write_text_file               {}  forward
fixer  tool permission/execute               {}  ask
fixer  tool permission/edit                  {}  forward`,
	"docs/extensions.md": `
ext-notes   tool delete_note               {}                                  ask
ext-notes   tool read_note                 {}                                  forward
summarizer  asks sampling/createMessage    {"messages": [], "maxTokens": 100}  forward
mailer      asks sampling/createMessage    {"messages": [], "maxTokens": 100}  ask
other       asks sampling/createMessage    {"messages": [], "maxTokens": 100}  ask`,
	"docs/facts.md": `
mail  tool send with secret        {}  ask
mail  tool send with secret-place  {}  ask
mail  tool send with planted       {}  ask
mail  tool send with prompted      {}  ask
mail  tool send with acts          {}  ask
mail  tool send with new-place     {}  ask
mail  tool send with sends         {}  forward
mail  tool send with outside       {}  forward
mail  tool send                    {}  forward`,
}

// Every configuration that a page shows loads without diagnostics and behaves as documented.
func TestPages(t *testing.T) {
	const top = "../.."
	pages, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"} {
		pages = append(pages, filepath.Join(top, name))
	}
	for _, page := range pages {
		name, err := filepath.Rel(top, page)
		if err != nil {
			t.Fatal(err)
		}
		if page == filepath.FromSlash(docs) {
			continue // TestDocumentation
		}
		if name == "docs/writing-extensions.md" {
			continue // it shows manifests, which the package extension tests
		}
		shown := 0
		for _, f := range fences(t, page) {
			if f.kind != "yaml" {
				continue
			}
			shown++
			checkSample(t, f, f.text, "", &listed{})
			s := load(t, f.text, "")
			checkCalls(t, fence{line: f.line, text: pageCalls[name]}, s)
		}
		if want := pageCalls[name] != ""; want != (shown > 0) {
			t.Errorf("%s shows %d configurations; pageCalls says what they do: %v", name, shown, want)
		}
	}
}

// docs/facts.md shows the built-in default.
func TestFactsPageIsTheDefault(t *testing.T) {
	for _, f := range fences(t, "../../docs/facts.md") {
		if f.kind != "yaml" {
			continue
		}
		cfg, ds := config.Parse("/x/thoughtgate.yaml", []byte(f.text), os.Getenv)
		if cfg == nil {
			t.Fatal(ds)
		}
		shown, ds := Load(cfg)
		if shown == nil {
			t.Fatal(ds)
		}
		holds, ds := Load(config.Default())
		if holds == nil {
			t.Fatal(ds)
		}
		for _, fact := range config.Facts() {
			for _, c := range []*gate.Call{toolCall(t, "x", "y", `{}`), fromServer(t, "x", "sampling/createMessage", `{"messages":[],"maxTokens":1}`)} {
				facts := []gate.Fact{{Name: fact}}
				got, gotErr := shown.Rule(context.Background(), c, facts)
				want, wantErr := holds.Rule(context.Background(), c, facts)
				if got.Move != want.Move || got.Reason != want.Reason || gotErr != nil || wantErr != nil {
					t.Errorf("%s: the page says %s, the default %s", fact, inShort(got, gotErr), inShort(want, wantErr))
				}
			}
		}
		return
	}
	t.Error("the page shows no configuration")
}
