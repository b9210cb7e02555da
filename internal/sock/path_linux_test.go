package sock

import (
	"strings"
	"testing"
)

func TestDefaultPaths(t *testing.T) {
	for _, test := range []struct {
		name string
		env  []string
		want Paths
		err  string
	}{
		{"home alone", []string{"HOME=/home/ann"}, Paths{"/home/ann/.config/thoughtgate", "/home/ann/.local/state/thoughtgate", "/home/ann/.local/state/thoughtgate/run"}, ""},
		{"usual", []string{"HOME=/home/ann", "XDG_RUNTIME_DIR=/run/user/1000"}, Paths{"/home/ann/.config/thoughtgate", "/home/ann/.local/state/thoughtgate", "/run/user/1000/thoughtgate"}, ""},
		{"all three, no home", []string{"XDG_CONFIG_HOME=/c", "XDG_STATE_HOME=/s/", "XDG_RUNTIME_DIR=/r"}, Paths{"/c/thoughtgate", "/s/thoughtgate", "/r/thoughtgate"}, ""},
		{"state moved, runtime with it", []string{"HOME=/h", "XDG_STATE_HOME=/s"}, Paths{"/h/.config/thoughtgate", "/s/thoughtgate", "/s/thoughtgate/run"}, ""},
		{"nothing", nil, Paths{}, "HOME is not set"},
		{"relative home", []string{"HOME=ann"}, Paths{}, `HOME is "ann"`},
		{"relative runtime", []string{"HOME=/h", "XDG_RUNTIME_DIR=run"}, Paths{}, `XDG_RUNTIME_DIR is "run"`},
		{"relative state", []string{"HOME=/h", "XDG_STATE_HOME=../s"}, Paths{}, "XDG_STATE_HOME"},
	} {
		got, err := DefaultPaths(env(test.env...))
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%s: %+v, %v; want %+v", test.name, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.err)
		}
	}
}
