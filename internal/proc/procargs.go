package proc

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// parseProcArgs parses the result of the sysctl kern.procargs2 of macOS: the number of
// arguments, the path of the program, zero bytes up to a boundary, the arguments, and the
// environment up to an empty string. An empty argv[0] can't be distinguished from the padding;
// then the first variable is taken for an argument.
func parseProcArgs(raw []byte) (exe string, args, env []string, err error) {
	malformed := errors.New("malformed kern.procargs2")
	if len(raw) < 4 {
		return "", nil, nil, malformed
	}
	count := int(binary.NativeEndian.Uint32(raw))
	path, rest, ok := bytes.Cut(raw[4:], []byte{0})
	if !ok || count < 0 {
		return "", nil, nil, malformed
	}
	rest = bytes.TrimLeft(rest, "\x00")
	for range count {
		var arg []byte
		if arg, rest, ok = bytes.Cut(rest, []byte{0}); !ok {
			return "", nil, nil, malformed
		}
		args = append(args, string(arg))
	}
	for {
		entry, after, ok := bytes.Cut(rest, []byte{0})
		if !ok || len(entry) == 0 {
			return string(path), args, env, nil
		}
		env = append(env, string(entry))
		rest = after
	}
}
