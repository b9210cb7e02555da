package agentconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/thoughtgate/thoughtgated/internal/edit/tomledit"
	"github.com/thoughtgate/thoughtgated/internal/edit/yamledit"
)

func TestNumberOf(t *testing.T) {
	tests := []struct {
		text string
		want float64
		ok   bool
	}{
		{"660", 660, true}, {"660.0", 660, true}, {"6.6e2", 660, true}, {"1_200", 1200, true}, {"+5", 5, true}, {"-1", -1, true},
		{"0x10", 16, true}, {"0o17", 15, true}, {"0b11", 3, true}, {"1_0.5", 10.5, true},
		{"", 0, false}, {`"5"`, 0, false}, {"5s", 0, false}, {"null", 0, false}, {"true", 0, false},
	}
	for _, test := range tests {
		if got, ok := numberOf(test.text); got != test.want || ok != test.ok {
			t.Errorf("numberOf(%q) = %v, %v, want %v, %v", test.text, got, ok, test.want, test.ok)
		}
	}
}

// A limit is raised, never lowered, and left alone if it is not a number. After a restore the
// entry is as it was, unless somebody has set the limit since.
func TestLimits(t *testing.T) {
	tests := []struct {
		name  string
		entry string // in YAML
		lax   bool
		want  []originalLimit
	}{
		{"none", "cmd: x", false, []originalLimit{{"timeout", "", "660"}}},
		{"none, which is no limit", "cmd: x", true, nil},
		{"null", "timeout: ~", false, []originalLimit{{"timeout", "~", "660"}}},
		{"nothing", "timeout:\ncmd: x", false, []originalLimit{{"timeout", " ", "660"}}},
		{"lower", "timeout: 0x10 # c", false, []originalLimit{{"timeout", "0x10", "660"}}},
		{"lower, of those that may lack it", "timeout: 5.5", true, []originalLimit{{"timeout", "5.5", "660"}}},
		{"as high", "timeout: 660.0", false, nil},
		{"higher", "timeout: 1e9", false, nil},
		{"text", "timeout: 5s", false, nil},
		{"a list", "timeout: [5]", false, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d, err := yamledit.Syntax{}.Parse([]byte(test.entry + "\n"))
			if err != nil {
				t.Fatal(err)
			}
			got := raised(d.Root(), []limit{{"timeout", 660, test.lax}})
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
			c := &changes{entry: d.Root()}
			for _, l := range got {
				c.put(l.Key, l.Now)
			}
			if len(c.ops)+len(c.added) != len(got) {
				t.Errorf("%d operations and %d members for %d limits", len(c.ops), len(c.added), len(got))
			}
		})
	}
}

func TestLower(t *testing.T) {
	was := []originalLimit{{"a", "5", "660"}, {"b", "", "660"}}
	tests := []struct{ now, want string }{
		{"a = 660\nb = 660\nc = 1\n", "a = 5\nc = 1\n"},
		{"a = 660.0\nb = 6_60\nc = 1\n", "a = 5\nc = 1\n"}, // the agent changed the spelling
		{"a = 700\nb = 1\nc = 1\n", "a = 700\nb = 1\nc = 1\n"},
		{"a = \"660\"\nc = 1\n", "a = \"660\"\nc = 1\n"},
		{"c = 1\n", "c = 1\n"},
	}
	for _, test := range tests {
		d, err := tomledit.Syntax{}.Parse([]byte(test.now))
		if err != nil {
			t.Fatal(err)
		}
		c := &changes{entry: d.Root()}
		for _, l := range unchanged(d.Root(), was) {
			c.put(l.Key, l.Was)
		}
		got, err := d.Edit(c.all()...)
		if err != nil || string(got) != test.want {
			t.Errorf("lowered %q to %q, %v, want %q", test.now, got, err, test.want)
		}
	}
}
