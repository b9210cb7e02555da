// Secretrules generates the rules by which package daemon/facts finds secrets from the rule
// file of gitleaks, whose module this module pins. It uses only the rules, as data; the engine
// that applies them is that of daemon/facts.
//
// It computes in advance what would cost time at run time: which rules can be tried at the
// keyword itself, and the minimum length of an unbroken run of letters and digits in a match.
//
// Usage:
//
//	go run -C tools ./secretrules [-check] FOLDER
//
// With -check it writes nothing, and the exit code is 1 if the files in the folder differ from
// what it would write.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/zricethezav/gitleaks/v8/config"
)

const module = "github.com/zricethezav/gitleaks/v8"

func main() {
	check := flag.Bool("check", false, "compare with what is there instead of writing")
	flag.Parse()
	if flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: secretrules [-check] FOLDER")
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *check); err != nil {
		fmt.Fprintln(os.Stderr, "secretrules:", err)
		os.Exit(1)
	}
}

func run(folder string, check bool) error {
	var source source
	if _, err := toml.Decode(config.DefaultConfig, &source); err != nil {
		return fmt.Errorf("rule file of %s: %w", module, err)
	}
	version, dir, err := where()
	if err != nil {
		return err
	}
	rules, err := source.rules()
	if err != nil {
		return err
	}
	code, err := render(rules, source.Allowlist, version)
	if err != nil {
		return err
	}
	licence, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"rules.gen.go": code, "rules.LICENSE": licence} {
		path := filepath.Join(folder, name)
		if !check {
			if err := os.WriteFile(path, content, 0o644); err != nil {
				return err
			}
			continue
		}
		have, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Equal(have, content) {
			return fmt.Errorf("%s is stale: run go run -C tools ./secretrules %s", path, folder)
		}
	}
	return nil
}

// where returns the version and the folder of the module with the rules.
func where() (version, dir string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", module).Output()
	if err != nil {
		return "", "", fmt.Errorf("go list -m %s: %w", module, err)
	}
	version, dir, _ = strings.Cut(strings.TrimSpace(string(out)), " ")
	if dir == "" {
		return "", "", fmt.Errorf("module %s is not downloaded", module)
	}
	return version, dir, nil
}
