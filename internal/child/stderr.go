package child

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode"
	"unicode/utf8"
)

// maxLine is the maximum length of a piece of standard error, in bytes. A longer line is
// written in marked pieces.
const maxLine = 16 << 10

// EscapeStderr copies src to dst line by line until src ends, each line in one Write. It
// escapes what a terminal would interpret: control characters and bytes that are not UTF-8 as
// \x1b, invisible characters (direction marks, zero widths, line separators) as \u202e. Joiners
// are kept, since scripts and emoji need them. A line of more than 16 KiB is broken with "..."
// on both sides of the break. If dst fails, src is still read to its end, so that the child
// does not block; the error is that of the first failed write, or of src.
func EscapeStderr(dst io.Writer, src io.Reader) error {
	in := bufio.NewReaderSize(src, maxLine)
	var out, keep []byte
	var writeErr error
	for continued := false; ; {
		piece, err := in.ReadSlice('\n')
		broken := errors.Is(err, bufio.ErrBufferFull)
		if len(keep) > 0 {
			piece = append(keep, piece...)
			keep = nil
		}
		if broken {
			piece, keep = splitRune(piece)
		}
		if len(piece) > 0 && writeErr == nil {
			out = out[:0]
			if continued {
				out = append(out, "..."...)
			}
			out = appendEscaped(out, bytes.TrimSuffix(bytes.TrimSuffix(piece, []byte("\n")), []byte("\r")))
			if broken {
				out = append(out, "..."...)
			}
			if _, err := dst.Write(append(out, '\n')); err != nil {
				writeErr = fmt.Errorf("copy stderr: %w", err)
			}
		}
		continued = broken
		switch {
		case err == io.EOF:
			return writeErr
		case err != nil && !broken:
			if writeErr != nil {
				return writeErr
			}
			return fmt.Errorf("copy stderr: %w", err)
		}
	}
}

// splitRune splits b before an incomplete character at its end. rest is a copy.
func splitRune(b []byte) (whole, rest []byte) {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		at := len(b) - n
		if utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at], bytes.Clone(b[at:])
			}
			break
		}
	}
	return b, nil
}

func appendEscaped(out, line []byte) []byte {
	for len(line) > 0 {
		r, size := utf8.DecodeRune(line)
		switch {
		case r == utf8.RuneError && size == 1, r < 0x20 && r != '\t', r == 0x7f:
			const digits = "0123456789abcdef"
			out = append(out, '\\', 'x', digits[line[0]>>4], digits[line[0]&15])
		case r > 0xffff && hidden(r):
			out = fmt.Appendf(out, `\U%08x`, r)
		case r >= 0x80 && r < 0xa0, hidden(r):
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = append(out, line[:size]...)
		}
		line = line[size:]
	}
	return out
}

// hidden reports whether r is invisible but changes what is displayed.
func hidden(r rune) bool {
	const zeroWidthNonJoiner, zeroWidthJoiner = '\u200c', '\u200d'
	if r < 0x80 || r == zeroWidthNonJoiner || r == zeroWidthJoiner {
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}
