package slack

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// tokenMost is how large a file may be that holds a token, in bytes.
const tokenMost = 4 << 10

// tokens of a Slack app, and where they came from.
type tokens struct {
	bot, app         string
	botFrom, appFrom string
}

// readTokens finds both tokens.
func readTokens(getenv func(string) string, n names) (t tokens, err error) {
	if t.bot, t.botFrom, err = readToken(getenv, n.bot, "xoxb-", "the bot token"); err != nil {
		return tokens{}, err
	}
	t.app, t.appFrom, err = readToken(getenv, n.app, "xapp-", "the app-level token")
	return t, err
}

// readToken finds the token of a name: in a credential of that name, which a
// service manager provides, in the file that NAME_FILE names, or in the variable
// itself. Two of these are ambiguous. No error holds any of the token.
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
			Hint: "Leave one of them out.",
		}
	case len(paths) == 1:
		if token, err = readFile(paths[0]); err != nil {
			return "", "", fmt.Errorf("read %s: %w", what, err)
		}
		from = paths[0]
	case token == "":
		return "", "", &Problem{
			Err:  fmt.Errorf("%s is missing: neither a credential %s, nor %s_FILE, nor %s is there", what, name, name, name),
			Hint: "Put it into a file that only you can read, and its path into " + name + "_FILE.",
		}
	}
	token = strings.TrimSpace(token)
	if !strings.HasPrefix(token, prefix) || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", "", &Problem{
			Err:  fmt.Errorf("%s is not what is in %s: it begins with %s", what, from, prefix),
			Hint: "Copy it again from the app's page: https://api.slack.com/apps",
		}
	}
	return token, from, nil
}

// readFile reads a small file that nobody else can read or write.
func readFile(path string) (string, error) {
	// A pipe would keep us waiting for whoever writes into it.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Mode().Perm()&0o077 != 0:
		return "", &Problem{
			Err:  fmt.Errorf("%s has mode %04o, so that others can use it", path, info.Mode().Perm()),
			Hint: "Make it yours alone: chmod 600 " + path,
		}
	case !ok || owner.Uid != 0 && int(owner.Uid) != os.Getuid():
		return "", fmt.Errorf("%s belongs to another user", path)
	case info.Size() > tokenMost:
		return "", fmt.Errorf("%s has %d bytes, too many for a token", path, info.Size())
	}
	text, err := io.ReadAll(io.LimitReader(f, tokenMost))
	return string(text), err
}
