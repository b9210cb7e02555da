package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// If npm exists but fails, only the tests that need what it installs are affected, and no
// partial installation is left that would be taken for a complete one.
func TestMakeGoesOnWhereNpmFails(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not here")
	}
	for target, variable := range map[string]string{"npm": "NPM", "agents": "AGENTS"} {
		dir := t.TempDir()
		for name, text := range map[string]string{
			"bin/npm":                 "#!/bin/sh\nmkdir -p \"$3/node_modules/half\" && echo 'npm error code E503' >&2 && exit 1\n",
			"fetch/package-lock.json": "{}\n",
		} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		cmd := exec.Command("make", "-C", "../..", target, variable+"="+dir+"/fetch")
		cmd.Env = append(os.Environ(), "PATH="+dir+"/bin:"+os.Getenv("PATH"), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "E503") || !strings.Contains(string(out), "npm has failed") {
			t.Errorf("make %s: %v\n%s", target, err, out)
		}
		if _, err := os.Stat(dir + "/fetch/node_modules"); err == nil {
			t.Errorf("make %s: what npm left half done is still there", target)
		}
	}
}
