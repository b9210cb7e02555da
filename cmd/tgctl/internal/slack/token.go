package slack

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// tokens holds the tokens of a Slack app, and where they came from.
type tokens struct {
	bot, app         string
	botFrom, appFrom string
}

// readTokens reads both tokens.
func readTokens(getenv func(string) string, n names) (t tokens, err error) {
	if t.bot, t.botFrom, err = readToken(getenv, n.bot, "xoxb-", "the bot token"); err != nil {
		return tokens{}, err
	}
	t.app, t.appFrom, err = readToken(getenv, n.app, "xapp-", "the app-level token")
	return t, err
}

// readToken reads the token called name: from a credential of that name, which a service
// manager provides, from the file that NAME_FILE names, or from the variable NAME. It is an
// error if more than one is present. No error contains any part of the token.
func readToken(getenv func(string) string, name, prefix, what string) (token, from string, err error) {
	var paths []string
	if dir := getenv("CREDENTIALS_DIRECTORY"); dir != "" {
		path := filepath.Join(dir, name)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, path)
		}
	}
	if path := getenv(name + "_FILE"); path != "" {
		paths = append(paths, path)
	}
	token, from = getenv(name), "the variable "+name
	switch {
	case len(paths) > 1 || len(paths) == 1 && token != "":
		return "", "", &Problem{
			Err:  fmt.Errorf("%s is given twice: by %s and by %s", what, paths[0], append(paths, from)[1]),
			Hint: "Remove one of them.",
		}
	case len(paths) == 1:
		if token, err = readFile(paths[0]); err != nil {
			return "", "", fmt.Errorf("read %s: %w", what, err)
		}
		from = paths[0]
	case token == "":
		return "", "", &Problem{
			Err:  fmt.Errorf("%s is missing: none of the credential %s, %s_FILE and %s is set", what, name, name, name),
			Hint: "Put it into a file that only you can read, and the file's path into " + name + "_FILE.",
		}
	}
	token = strings.TrimSpace(token)
	if !strings.HasPrefix(token, prefix) || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", &Problem{
			Err:  fmt.Errorf("%s in %s is invalid: it must begin with %s", what, from, prefix),
			Hint: "Copy it again from the app's page: https://api.slack.com/apps",
		}
	}
	return token, from, nil
}

// readFile reads a file that holds a token. The error for a wrong mode says how to fix it.
func readFile(path string) (string, error) {
	text, err := secret.ReadFile(path)
	if _, wide := errors.AsType[*secret.ModeError](err); wide {
		return "", &Problem{Err: err, Hint: "Restrict it to yourself: chmod 600 " + path}
	}
	return text, err
}
