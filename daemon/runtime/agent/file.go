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

	"github.com/thoughtgate/thoughtgated/daemon/submit"
	"github.com/thoughtgate/thoughtgated/internal/rawjson"
	"github.com/thoughtgate/thoughtgated/internal/rpc"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// mostText is the maximum size of a file that an agent reads at once or writes, in bytes.
const mostText = 4 << 20

// readFile handles fs/read_text_file.
func (o *run) readFile(_ context.Context, p *submit.Permitted) ([]byte, string, error) {
	a := p.Arguments
	path, line, limit := pathOf(a), a.Number("line", 1), a.Number("limit", math.MaxInt32)
	if err := a.Err(); err != nil {
		return nil, "", invalid(err)
	}
	text, err := readText(path, int(min(line, math.MaxInt32)), int(min(limit, math.MaxInt32)))
	if errors.Is(err, fs.ErrNotExist) {
		// Before an agent creates a file it reads it, to show the difference. Some agents
		// recognize a missing file by the error code, others by words in the message.
		return nil, "", &rpc.Fault{Code: codeNotFound, Message: fmt.Sprintf("Resource not found: read %s: ENOENT: No such file or directory", path)}
	}
	if err != nil {
		return nil, "", fmt.Errorf("read %s: %w", path, err)
	}
	return append(wire.AppendQuote([]byte(`{"content":`), text), '}'), text, nil
}

// pathOf returns the path of the file that a request is about.
func pathOf(a rawjson.Object) string {
	path := a.Text("path")
	if !filepath.IsAbs(path) {
		a.Fail("the path %q is not absolute", path)
	}
	return filepath.Clean(path)
}

// readText reads limit lines of a file, starting at line, which is counted from 1. A line below
// 1 stands for the first, a negative limit for no limit.
func readText(path string, line, limit int) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", plain(err)
	}
	// Opening a pipe would block, and a link that appeared only now is not what was judged.
	f, err := os.OpenFile(real, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", plain(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(plain(err), errors.New("it is not a regular file"))
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

// writeFile handles fs/write_text_file.
func (o *run) writeFile(_ context.Context, p *submit.Permitted) ([]byte, string, error) {
	path, content := pathOf(p.Arguments), p.Arguments.Text("content")
	if err := p.Arguments.Err(); err != nil {
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

// writeText replaces a file as a whole and keeps its mode. It follows a link and leaves the
// link in place. Missing folders are created.
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
		return errors.New("it is not a regular file")
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

// target returns what a path resolves to, whether or not the file exists.
func target(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return real, plain(err)
	}
	if _, err := os.Lstat(path); err == nil {
		return "", errors.New("it is a dangling symbolic link")
	}
	if path == filepath.Dir(path) {
		return path, nil
	}
	above, err := target(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// plain removes the path from an error whose message names it already.
func plain(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
