package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	o, err := parse([]string{"-base", "old", "-peer", "one=/bin/one --key=value  --", "-peer", "two.2=two", "-only", "^large$", "-turns", "2"})
	if err != nil {
		t.Fatal(err)
	}
	want := []peer{{"one", []string{"/bin/one", "--key=value", "--"}}, {"two.2", []string{"two"}}}
	if !reflect.DeepEqual(o.peers, want) {
		t.Errorf("the peers are %q, want %q", o.peers, want)
	}
	if !filepath.IsAbs(o.base) || filepath.Base(o.base) != "old" || !filepath.IsAbs(o.bin) {
		t.Errorf("the programs are started elsewhere, and said to be in %s and %s", o.bin, o.base)
	}
	if !o.only.MatchString("large") || o.only.MatchString("latency") || o.turns != 2 {
		t.Errorf("got %v, %d turns", o.only, o.turns)
	}
	if o, err := parse(nil); err != nil || o.base != "" || o.peers != nil || !o.only.MatchString("latency") {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"-peer one", "NAME=COMMAND"},
		{"-peer =/bin/one", "NAME=COMMAND"},
		{"-peer one=", "NAME=COMMAND"},
		{"-peer ../one=/bin/one", "NAME=COMMAND"},
		{"-peer a|b=/bin/one", "NAME=COMMAND"},
		{"-peer base=/bin/one", "called base already"},
		{"-peer direct=/bin/one", "called direct already"},
		{"-peer one=/bin/one -peer one=/bin/two", "called one already"},
		{"-only (", "missing closing"},
		{"-turns many", "turns"},
		{"-turns 2 more", `"more" is no flag`},
	} {
		if _, err := parse(strings.Fields(test.args)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}
	}
}
