package agent

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"unicode/utf8"

	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostText is how much of a file an agent reads at once, or writes, in bytes.
const mostText = 4 << 20

// readFile answers fs/read_text_file.
func (o *run) readFile(_ context.Context, p *permitted) ([]byte, string, error) {
	a := p.arguments
	path, line, limit := pathOf(a), a.Number("line", 1), a.Number("limit", math.MaxInt32)
	if err := a.Err(); err != nil {
		return nil, "", invalid(err)
	}
	text, err := readText(path, int(min(line, math.MaxInt32)), int(min(limit, math.MaxInt32)))
	if errors.Is(err, fs.ErrNotExist) {
		// Before it makes a file an agent reads it, to show the difference: that there
		// is none yet it knows by the code, or by words of the text. Each looks for others.
		return nil, "", &wire.Fault{Code: codeNotFound, Message: fmt.Sprintf("Resource not found: read %s: ENOENT: No such file or directory", path)}
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	return append(wire.AppendQuote([]byte(`{"content":`), text), '}'), text, nil
}

// pathOf is the file that a request is about.
func pathOf(a rawjson.Object) string {
	path := a.Text("path")
	if !filepath.IsAbs(path) {
		a.Fail("the path %q is not absolute", path)
	}
	return filepath.Clean(path)
}

// readText reads limit lines of a file from a line on, counted from 1; a number
// below 0 stands for the first line, and for all of them.
func readText(path string, line, limit int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", plain(err)
	}
	// A pipe would be waited for, and a link that has just been put there was not
	// what was judged.
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", plain(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(plain(err), errors.New("it is no regular file"))
	}
	in := bufio.NewReaderSize(f, 64<<10)
	var text []byte
	for n, first := 1, max(line, 1); limit < 0 || n < first+limit; {
		piece, err := in.ReadSlice('\n')
		if n >= first {
			text = append(text, piece...)
		}
		if len(text) > mostText {
			return "", fmt.Errorf("it is longer than %d bytes; ask for fewer lines", mostText)
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			n++
		} else if !errors.Is(err, bufio.ErrBufferFull) {
			return "", plain(err)
		}
	}
	if !utf8.Valid(text) {
		return "", errors.New("it is not UTF-8 text")
	}
	return string(text), nil
}

// writeFile answers fs/write_text_file.
func (o *run) writeFile(_ context.Context, p *permitted) ([]byte, string, error) {
	path, content := pathOf(p.arguments), p.arguments.Text("content")
	if err := p.arguments.Err(); err != nil {
		return nil, "", invalid(err)
	}
	if len(content) > mostText {
		return nil, "", fmt.Errorf("write %s: the content is longer than %d bytes", path, mostText)
	}
	if err := writeText(path, []byte(content)); err != nil {
		return nil, "", fmt.Errorf("write %s: %w", path, err)
	}
	return []byte("{}"), "", nil
}

// writeText puts a file in the place of another as a whole, with the same mode.
// What a link leads to is written, and the link stays. Folders that are not there
// are made.
func writeText(path string, content []byte) error {
	real, err := target(path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0)
	switch info, err := os.Lstat(real); {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return plain(err)
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file")
	default:
		mode = info.Mode().Perm()
		if old, err := os.ReadFile(real); err == nil && bytes.Equal(old, content) {
			return nil
		}
	}
	dir := filepath.Dir(real)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return plain(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".thoughtgate-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return plain(err)
	}
	_, err = f.Write(content)
	if err == nil && mode != 0 {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), real)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return plain(err)
}

// target is what a path leads to, whether or not there is a file.
func target(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, plain(err)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a link that leads nowhere")
	}
	if path == filepath.Dir(path) {
		return path, nil
	}
	above, err := target(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// plain drops from an error the path that its message names already.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
