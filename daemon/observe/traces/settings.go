package traces

import (
	"fmt"
	"maps"
	"path/filepath"
	"strings"

	"github.com/thoughtgate/thoughtgated/daemon/config"
	"github.com/thoughtgate/thoughtgated/internal/secret"
)

// settings are the settings of a sender. With the zero value nothing is sent.
type settings struct {
	endpoint string
	headers  map[string]string
	resource map[string]string
	rate     float64
}

// settingsOf returns the settings in cfg. It reads the files that cfg names.
func settingsOf(cfg *config.Config, getenv func(string) string) (settings, error) {
	t := &cfg.Telemetry
	if !t.Enabled {
		return settings{}, nil
	}
	s := settings{
		endpoint: t.OTLP.Endpoint, headers: map[string]string{}, resource: maps.Clone(t.Resource), rate: t.Sampling.SuccessSampleRate,
	}
	maps.Copy(s.headers, t.OTLP.Headers)
	for name, from := range t.OTLP.HeaderFiles {
		path, err := pathOf(from, filepath.Dir(cfg.Path), getenv)
		if err != nil {
			return settings{}, fmt.Errorf("read the header %s: %w", name, err)
		}
		text, err := secret.ReadFile(path)
		if err != nil {
			return settings{}, fmt.Errorf("read the header %s: %w", name, err)
		}
		text = strings.TrimSpace(text)
		if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return settings{}, fmt.Errorf("read the header %s: %s must contain one line of plain text", name, path)
		}
		s.headers[name] = text
	}
	return s, nil
}

// pathOf returns the path of the file with a header's value. folder is that of the configuration.
func pathOf(from, folder string, getenv func(string) string) (string, error) {
	name, ok := strings.CutPrefix(from, config.Credential)
	switch {
	case ok:
		dir := getenv("CREDENTIALS_DIRECTORY")
		if dir == "" {
			return "", fmt.Errorf("the credential %s is not provided: add LoadCredential=%s:PATH to the daemon's unit", name, name)
		}
		return filepath.Join(dir, name), nil
	case filepath.IsAbs(from):
		return from, nil
	}
	return filepath.Join(folder, from), nil
}
