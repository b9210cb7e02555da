package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/test/fake"
)

// windowSocket is the socket of the fake application, in its working directory.
const windowSocket = "window.sock"

// playWindow is an application with windows. `open CONFIG SCRIPT` is its launcher: it hands
// over to the running instance, or starts one by a double fork, in a session of its own and
// without ThoughtGate's variables, and returns at once. The instance starts the servers half a
// second later in a child process, and again after that has exited. `sh FILE` makes the
// instance run a shell script, and `quit` ends it.
func playWindow() int {
	err := func() error {
		switch os.Args[1] {
		case "detach":
			cmd := exec.Command("fake-window", append([]string{"main"}, os.Args[2:]...)...)
			cmd.Env = slices.DeleteFunc(os.Environ(), func(entry string) bool { return strings.HasPrefix(entry, "THOUGHTGATE_") })
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
			return cmd.Start()
		case "main":
			return runWindow(os.Args[2:])
		case "host":
			return hostWindow(os.Args[2], os.Args[3])
		}
		c, err := net.Dial("unix", windowSocket)
		if err != nil && os.Args[1] == "open" {
			if err := exec.Command("fake-window", append([]string{"detach"}, os.Args[2:]...)...).Run(); err != nil {
				return err
			}
			return awaitWindow() // otherwise the next launcher would not find it
		}
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := fmt.Fprintln(c, strings.Join(os.Args[1:], " ")); err != nil {
			return err
		}
		_, err = bufio.NewReader(c).ReadString('\n') // wait until it is done
		return err
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// awaitWindow waits until the started instance listens.
func awaitWindow() error {
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		c, err := net.Dial("unix", windowSocket)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

// runWindow is the application itself.
func runWindow(open []string) error {
	l, err := net.Listen("unix", windowSocket)
	if err != nil {
		return err
	}
	if len(open) > 0 {
		go openWindow(open)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		words := strings.Fields(line)
		if err != nil || len(words) == 0 {
			c.Close()
			continue
		}
		switch words[0] {
		case "open": // the launcher returns at once
			go openWindow(words[1:])
		case "sh":
			cmd := exec.Command("sh", words[1:]...)
			if err := cmd.Run(); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
		fmt.Fprintln(c, "done")
		c.Close()
		if words[0] == "quit" {
			return l.Close() // also removes the socket
		}
	}
}

// openWindow starts the servers twice, and records each round in the file rounds.
func openWindow(args []string) {
	for round := 1; round <= 2; round++ {
		time.Sleep(500 * time.Millisecond) // like a real editor
		if err := exec.Command("fake-window", append([]string{"host"}, args...)...).Run(); err != nil {
			_ = os.WriteFile("rounds", []byte(err.Error()+"\n"), 0o600)
			return
		}
		_ = os.WriteFile("rounds", fmt.Appendf(nil, "round %d\n", round), 0o600)
	}
}

// hostWindow is the application's process that uses servers. It appends the results of the
// script to the file results.
func hostWindow(config, script string) error {
	text, err := os.ReadFile(script)
	if err != nil {
		return err
	}
	steps, err := fake.ReadScript(string(text))
	if err != nil {
		return err
	}
	results, err := os.OpenFile("results", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer results.Close()
	return fake.RunAgent(context.Background(), fake.AgentOptions{Config: config, Steps: steps, Stderr: results, Report: func(r fake.Result) {
		fmt.Fprintf(results, "%s: error %v, %v: %s\n", r.Tool, r.IsError, r.Err, strings.ReplaceAll(r.Text, "\n", " "))
	}})
}
