package child

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"unicode"
	"unicode/utf8"
)

func TestComposeEnv(t *testing.T) {
	base := []string{"HOME=/h", "THOUGHTGATE_SOCKET=/s", "THOUGHTGATE_SESSION=x", "A=1", "A=2", "EMPTY=", "EQ=a=b", "none", "=x", "PATH=/bin"}
	for _, test := range []struct {
		name string
		base []string
		set  map[string]string
		drop []string
		want []string
	}{
		{"nothing asked", base, nil, nil, []string{"HOME=/h", "THOUGHTGATE_SOCKET=/s", "THOUGHTGATE_SESSION=x", "A=1", "EMPTY=", "EQ=a=b", "PATH=/bin"}},
		{"ours taken out", base, nil, []string{"THOUGHTGATE_*"}, []string{"HOME=/h", "A=1", "EMPTY=", "EQ=a=b", "PATH=/bin"}},
		{"exact names only", base, nil, []string{"THOUGHTGATE_", "A", "EMP"}, []string{"HOME=/h", "THOUGHTGATE_SOCKET=/s", "THOUGHTGATE_SESSION=x", "EMPTY=", "EQ=a=b", "PATH=/bin"}},
		{"set replaces, in order of names", []string{"B=old", "C=kept"}, map[string]string{"B": "new", "A": ""}, nil, []string{"C=kept", "A=", "B=new"}},
		{"set is stronger than drop", nil, map[string]string{"A": "1"}, []string{"*"}, []string{"A=1"}},
		{"all dropped", base, nil, []string{"*"}, []string{}},
	} {
		if got := ComposeEnv(test.base, test.set, test.drop); !slices.Equal(got, test.want) {
			t.Errorf("%s:\n got %q\nwant %q", test.name, got, test.want)
		}
	}
}

func TestEscapeStderr(t *testing.T) {
	long := strings.Repeat("x", maxLine-len("é")+1)
	for _, test := range []struct{ name, in, want string }{
		{"lines", "one\ntwo\n", "one\ntwo\n"},
		{"no newline at the end", "one", "one\n"},
		{"empty lines stay", "\n\n", "\n\n"},
		{"nothing", "", ""},
		{"CRLF", "one\r\ntwo\r\n", "one\ntwo\n"},
		{"colour, title, cursor", "\x1b[31mred\x1b[0m \x1b]0;t\x07\n", `\x1b[31mred\x1b[0m \x1b]0;t\x07` + "\n"},
		{"carriage return in a line", "done\rreal\n", `done\x0dreal` + "\n"},
		{"backspace, delete, NUL", "a\bb\x7fc\x00\n", `a\x08b\x7fc\x00` + "\n"},
		{"tab stays", "a\tb\n", "a\tb\n"},
		{"eight-bit controls, both spellings", "\x9b31m \u009b31m\n", `\x9b31m \u009b31m` + "\n"},
		{"bytes that are no UTF-8", "a\xff\xc3(\xed\xa0\x80\n", `a\xff\xc3(\xed\xa0\x80` + "\n"},
		{"half a character at the end", "a\xe2\x82", `a\xe2\x82` + "\n"},
		{"direction and zero width", "a\u202eb\u2066c\u200bd\ufeffe\u2028f\U000e0041\n", `a\u202eb\u2066c\u200bd\ufeffe\u2028f\U000e0041` + "\n"},
		{"text as it is", "héllo 日本 👩\u200d💻 می\u200cخواهم 100% C:\\x\n", "héllo 日本 👩\u200d💻 می\u200cخواهم 100% C:\\x\n"},
		{"a long line is broken between characters", long + "éz\n", long + "...\n...éz\n"},
	} {
		for name, src := range map[string]io.Reader{
			"whole":    strings.NewReader(test.in),
			"bytewise": iotest.OneByteReader(strings.NewReader(test.in)),
			"data+EOF": iotest.DataErrReader(strings.NewReader(test.in)),
		} {
			var dst bytes.Buffer
			if err := EscapeStderr(&dst, src); err != nil || dst.String() != test.want {
				t.Errorf("%s, %s: %v\n got %q\nwant %q", test.name, name, err, dst.String(), test.want)
			}
		}
	}
}

func TestEscapeStderrErrors(t *testing.T) {
	// The terminal is closed; the child's output must still be read.
	src := strings.NewReader(strings.Repeat("line\n", 10000))
	full := errors.New("no space left")
	if err := EscapeStderr(failing{full}, src); !errors.Is(err, full) || src.Len() > 0 {
		t.Errorf("error %v, %d bytes unread; want %v and none", err, src.Len(), full)
	}
	broken := errors.New("broken")
	var dst bytes.Buffer
	if err := EscapeStderr(&dst, io.MultiReader(strings.NewReader("a\nb"), iotest.ErrReader(broken))); !errors.Is(err, broken) || dst.String() != "a\nb\n" {
		t.Errorf("error %v, wrote %q", err, dst.String())
	}
}

func TestEscapeStderrIsBounded(t *testing.T) {
	w := &largest{}
	if err := EscapeStderr(w, io.LimitReader(endless{}, 8<<20)); err != nil {
		t.Fatal(err)
	}
	if w.max > 4*maxLine+16 || w.writes < 8<<20/maxLine {
		t.Errorf("largest write %d bytes in %d writes", w.max, w.writes)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	clear(b) // NUL: four bytes each when escaped
	return len(b), nil
}

type largest struct{ max, writes int }

func (l *largest) Write(b []byte) (int, error) {
	l.max = max(l.max, len(b))
	l.writes++
	return len(b), nil
}

func FuzzEscapeStderr(f *testing.F) {
	for _, seed := range []string{"plain\n", "\x1b[2J\x9b\xff\r\n", "\u202e\u200b"} {
		f.Add([]byte(seed), uint16(7))
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk uint16) {
		var whole, parts bytes.Buffer
		if err := EscapeStderr(&whole, bytes.NewReader(in)); err != nil {
			t.Fatal(err)
		}
		if err := EscapeStderr(&parts, &chunks{in, int(chunk) + 1}); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(whole.Bytes(), parts.Bytes()) {
			t.Fatalf("the size of reads changes what is shown:\n%q\n%q", whole.Bytes(), parts.Bytes())
		}
		if !utf8.Valid(whole.Bytes()) {
			t.Fatalf("not UTF-8: %q", whole.Bytes())
		}
		for _, r := range whole.String() {
			if unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("control character %U in %q", r, whole.String())
			}
		}
	})
}

type chunks struct {
	rest []byte
	size int
}

func (c *chunks) Read(b []byte) (int, error) {
	if len(c.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, c.rest[:min(c.size, len(c.rest))])
	c.rest = c.rest[n:]
	return n, nil
}
