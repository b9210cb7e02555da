// Tgctl is the command line of ThoughtGate: it wraps agents, shows the waiting questions
// and answers them, reads the audit log, and manages the daemon.
//
// Every command is a method that returns a cobra command, in a file named after it or
// after its group, here or in the package of its subject below internal. Commands use
// their environment only through the app type, so that tests can replace it: nothing else
// reads os.Stdin, os.Stdout or the environment.
package main

import "os"

func main() {
	a := newApp()
	ctx, stop := a.UntilInterrupted()
	code := a.run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
