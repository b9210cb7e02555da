package effects_test

import (
	"strings"
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/shell"
	"github.com/thoughtgate/thoughtgated/internal/shell/effects"
)

// Which words say what a program does, and which lines must be seen each time.
func TestVerb(t *testing.T) {
	verb := func(text string) (string, error) {
		line := shell.Parse(text, shell.Options{Dir: "/w", Home: "/h"})
		c, verb, err := effects.Verb(line, effects.Of(line))
		if err != nil {
			return "", err
		}
		return strings.TrimSpace(c.Program + " " + verb), nil
	}
	for text, want := range map[string]string{
		"git push": "git push", "git push -u origin main": "git push", "git commit -m 'rm -rf /'": "git commit", "go test ./...": "go test", "go run ./cmd/x -v": "go run ./cmd/x",
		"npm test -- -x": "npm test", "npm run build -- --watch": "npm run build", "yarn run build": "yarn run build", "make check": "make check", "make -s a b": "make a b", "gradle :app:test": "gradle :app:test",
		"cargo build --release": "cargo build", "ls -la src": "ls", "cat a b": "cat", "pytest -q": "pytest", "tsc -p .": "tsc", "mkdir a": "mkdir",
	} {
		if got, err := verb(text); got != want {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{
		"git", "git -C x push", "git push --force", "git push -f", "git push origin :x", "git push origin +main", "git push https://a.example/x", "git push --mirror", "git push --force-with-lease", "git push a.example:x", "git pull a.example:x main", "git fetch ann@a.example:x", "go env -w A=b", "git push $X", "git push; ls",
		"git stash", "git reset", "git clean -n", "git branch x", "git checkout x", "git switch x", "git restore --staged x", "git rm x", "git config a.b c", "git tag x", "git rebase x", "git remote add x y",
		"git submodule update", "git worktree add x", "git gc", "git apply x", "git foo", "git pull -f origin a:b", "GIT push", "Git status",
		"npm", "npm run", "npm run --silent", "npm --silent test", "npm publish", "npm config set a b", "npm init x", "npx x", "npm exec x", "yarn workspace a b", "go run", "go run -race ./x", "go tool x", "cargo publish", "cargo +nightly test",
		"make", "make -s", "make clean", "make a clean", "make SHELL=/x check", "gradle publish", "mvn deploy", "gem push x", "pip config list",
		"python x.py", "python3.12 -m x", "node x", "ruby x", "perl x", "bash x", "sh x", "zsh", "fish x", "env", "sudo ls", "xargs ls", "ssh h", "docker ps", "docker build .", "podman ps", "kubectl get pods",
		"rm x", "rmdir x", "mv a b", "cp a b", "dd if=a", "find .", "curl -V", "wget -V", "nc -h", "rsync a b", "scp a h:b", "tar xf a", "sed -n 1p a", "awk 1 a", "chmod +x a", "chown a b", "kill 1", "vim a", "less a",
		"psql", "mysql", "sqlite3 a", "redis-cli ping", "terraform plan", "aws s3 ls", "gh pr view", "helm list", "systemctl status x", "crontab -l", "tee ~/.bashrc", "tee .git/hooks/x", "touch /etc/passwd",
		"npm rum test", "npm explore x", "npm pkg get a", "npm exe x", "npm ci", "npm version", "npm run clean", "pnpm recursive test", "pnpm rimraf x", "pnpm -r test", "yarn plugin list", "yarn rimraf x", "yarn run node x", "bun run node x", "cargo xtask x", "cargo watch", "go get x", "go mod tidy", "pip cache list", "poetry self show", "bundle plugin list", "gem owner x",
		"dotnet fsi", "dotnet x.dll", "mix do test", "mix cmd x", "flutter pub get", "dart x.dart", "zig cc x", "swift x.swift",
		"cargo test --config a.b=c", "cargo test --conf a.b=c", "cargo test -Zx", "dotnet build -p:PreBuildEvent=x", "dotnet build --property:PreBuildEvent=x", "rake test -ex", "rake test --exec=x", "rake test -te x", "tox run -xtestenv.commands=x", "just check --chooser=x", "bazel test x --run_under=y", "mvn test -DargLine=x", "gradle check -Dorg.gradle.jvmargs=x", "ninja all -tclean", "npm test --node-options=--require=x", "zig test x --test-cmd y", "go test -ldflags=-extld=x", "go test --ldflags=-extld=x",
		"git log --output=a", "git diff --outp a", "pytest --pastebin=all", "pytest --basetemp=src", "pytest --base src", "pytest -oaddopts=x", "pylint --init-hook=x", "mypy --install-types", "eslint --init",
		"view a", "more a", "bat a", "tig", "jq -n env", "ps e", "date -s x", "tree -o x", "uniq a b", "shuf -o a b", "xxd a b", "java x", "jshell", "erl", "iex", "clisp", "ghci", "cmake .", "gcc a.c", "emulate sh -c x", "enable -f x y", "repeat 3 x", "bwrap x", "claude x", "codex x", "gpg x", "rpm x", "apk add x", "gulp x", "webpack", "tool-of-the-project", "LS", "Cat a",
		"make 'check all'", "make 'a\nb'", "go run './x y'", "npm run 'a b'",
		"cd x", "export A=b", "eval x", "source x", "alias a=b", "exec ls", "set -e", "trap x EXIT", "read x", "printf x", "nu x", "deno run x", "bun x.ts", "tsx x", "php x", "open x", "xdg-open x", "vimdiff a b", "git-push",
	} {
		if got, err := verb(text); err == nil {
			t.Errorf("%s: may be done again as %q", text, got)
		}
	}
}
