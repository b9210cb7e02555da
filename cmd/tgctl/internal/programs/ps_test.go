package programs

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/consoletest"
)

// newConsole returns a terminal of 80 columns whose tgctl has only these commands.
func newConsole(socket string) *consoletest.Console {
	return consoletest.New(socket, PSCommand, LogsCommand, RestartCommand)
}

func TestPS(t *testing.T) {
	for _, test := range []struct {
		golden string
		args   []string
		fill   func(*consoletest.Daemon)
	}{
		{"ps", []string{"ps"}, func(f *consoletest.Daemon) { f.Processes = consoletest.RunningProcesses() }},
		{"ps-json", []string{"ps", "--json"}, func(f *consoletest.Daemon) { f.Processes = consoletest.RunningProcesses() }},
		{"ps-kept", []string{"ps"}, func(f *consoletest.Daemon) {
			f.Processes = append(consoletest.RunningProcesses()[:1], consoletest.KeptProcesses()...)
		}},
		{"ps-kept-wide", []string{"ps", "--wide"}, func(f *consoletest.Daemon) {
			f.Processes = append(consoletest.RunningProcesses()[:1], consoletest.KeptProcesses()...)
		}},
		{"ps-kept-json", []string{"ps", "--json"}, func(f *consoletest.Daemon) { f.Processes = consoletest.KeptProcesses() }},
		{"ps-none", []string{"ps"}, func(*consoletest.Daemon) {}},
	} {
		t.Run(test.golden, func(t *testing.T) {
			f := consoletest.Start(t)
			test.fill(f)
			newConsole(f.Socket).LooksLike(t, test.golden, test.args...)
		})
	}
}
