package facts

import (
	"encoding/base64"
	"os"
)

func quotedBase64(s string) []byte { return base64.StdEncoding.AppendEncode(nil, []byte(s)) }

func mkdir(path string) error           { return os.MkdirAll(path, 0o700) }
func symlink(target, path string) error { return os.Symlink(target, path) }
