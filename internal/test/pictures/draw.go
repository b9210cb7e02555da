package pictures

import (
	"bytes"
	"fmt"
	"html"
	"image"
	"image/color"
	"image/png"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	sgr         = regexp.MustCompile(`\x1b\[([\d;]*)m`)    // colours a text
	overwritten = regexp.MustCompile(`[^\n]*\r(\x1b\[K)?`) // is written over by the rest of its line
)

// The 16 colours that terminals have by default, as xterm has them.
var basic = []string{"#000000", "#cd0000", "#00cd00", "#cdcd00", "#3b78ff", "#cd00cd", "#00cdcd", "#e5e5e5",
	"#7f7f7f", "#ff0000", "#00ff00", "#ffff00", "#5c5cff", "#ff00ff", "#00ffff", "#ffffff"}

// indexed returns the colour of a number of 256.
func indexed(n int) string {
	switch {
	case n < 16:
		return basic[n]
	case n < 232:
		step := func(k int) int {
			if k == 0 {
				return 0
			}
			return 55 + 40*k
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", step(n/36), step(n/6%6), step(n%6))
	}
	return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", 8+10*(n-232))
}

// pen is how a terminal writes at the moment.
type pen struct {
	color                string
	code                 string // the parameters that set color
	bold, faint, reverse bool
}

// set obeys the parameters of a sequence.
func (p *pen) set(parameters string) {
	numbers := strings.Split(parameters, ";")
	for i := 0; i < len(numbers); i++ {
		switch n, _ := strconv.Atoi(numbers[i]); {
		case n == 0:
			*p = pen{}
		case n == 1:
			p.bold = true
		case n == 2:
			p.faint = true
		case n == 7:
			p.reverse = true
		case n == 22:
			p.bold, p.faint = false, false
		case n == 27:
			p.reverse = false
		case n >= 30 && n < 38:
			p.color, p.code = basic[n-30], numbers[i]
		case n >= 90 && n < 98:
			p.color, p.code = basic[n-82], numbers[i]
		case n == 38 && i+2 < len(numbers) && numbers[i+1] == "5":
			n, _ = strconv.Atoi(numbers[i+2])
			p.color, p.code, i = indexed(n), strings.Join(numbers[i:i+3], ";"), i+2
		case n == 39:
			p.color, p.code = "", ""
		}
	}
}

// sequence returns what sets the pen.
func (p pen) sequence() string {
	all := "0"
	for _, part := range []struct {
		is   bool
		code string
	}{{p.bold, "1"}, {p.faint, "2"}, {p.reverse, "7"}, {p.code != "", p.code}} {
		if part.is {
			all += ";" + part.code
		}
	}
	return "\x1b[" + all + "m"
}

// Canonical returns a screen of a terminal in the one form that looks like it: what a blank is coloured with,
// and which blanks end a line, depends on what was drawn there before.
func Canonical(screen string) string {
	var out, blanks strings.Builder
	var now, set pen
	put := func(text string) {
		for _, r := range text {
			switch {
			case r == '\n':
				blanks.Reset()
				out.WriteByte('\n')
				continue
			case r == ' ' && !now.reverse:
				blanks.WriteByte(' ')
				continue
			}
			if blanks.Len() > 0 && set.reverse {
				out.WriteString(pen{}.sequence())
				set = pen{}
			}
			out.WriteString(blanks.String())
			blanks.Reset()
			if now != set {
				out.WriteString(now.sequence())
				set = now
			}
			out.WriteRune(r)
		}
	}
	from := 0
	for _, m := range sgr.FindAllStringSubmatchIndex(screen, -1) {
		put(screen[from:m[0]])
		now.set(screen[m[2]:m[3]])
		from = m[1]
	}
	put(screen[from:])
	return out.String()
}

// style returns the pen as CSS.
func (p pen) style(ink, paper string) string {
	if p.color != "" {
		ink = p.color
	}
	css := "color:" + ink
	if p.reverse {
		css = "color:" + paper + ";background:" + ink
	}
	if p.bold {
		css += ";font-weight:bold"
	}
	if p.faint {
		css += ";opacity:.6"
	}
	return css
}

// page draws a screen as a page that has exactly its size.
func (s Shot) page() string {
	ink, paper := "#d8d8d8", "#111418"
	if s.Light {
		ink, paper = "#1c1c1c", "#ffffff"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<!doctype html><meta charset="utf-8"><style>body{margin:0;background:%s}
pre{margin:0;padding:10px 12px;width:%dch;font:13px/17px "DejaVu Sans Mono",monospace;color:%s}</style><pre>`, paper, s.Columns, ink)
	var now pen
	from := 0
	put := func(text string) {
		if text == "" {
			return
		}
		if text = html.EscapeString(text); now != (pen{}) {
			text = `<span style="` + now.style(ink, paper) + `">` + text + "</span>"
		}
		b.WriteString(text)
	}
	for _, m := range sgr.FindAllStringSubmatchIndex(s.Screen, -1) {
		put(s.Screen[from:m[0]])
		now.set(s.Screen[m[2]:m[3]])
		from = m[1]
	}
	put(s.Screen[from:])
	return b.String() + "</pre>"
}

const (
	maxColors = 64
	areas     = 8    // so many of the most frequent colours are kept in any case: those of areas
	maxHeight = 1600 // pixels; a longer page is cut
	apart     = 48   // two colours of a palette differ by at least so much, summed over red, green and blue
)

// reduced returns a PNG with few colours: the most frequent ones that differ.
func reduced(in io.Reader) ([]byte, error) {
	from, err := png.Decode(in)
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	bounds := from.Bounds()
	bounds.Max.Y = min(bounds.Max.Y, bounds.Min.Y+maxHeight)
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	colors := make([]color.RGBA, 0, len(count))
	for c := range count {
		colors = append(colors, c)
	}
	slices.SortFunc(colors, func(a, b color.RGBA) int {
		if count[a] != count[b] {
			return count[b] - count[a]
		}
		return (int(a.R)<<16 + int(a.G)<<8 + int(a.B)) - (int(b.R)<<16 + int(b.G)<<8 + int(b.B))
	})
	var palette color.Palette
	for i, c := range colors {
		if len(palette) < maxColors && (i < areas || !slices.ContainsFunc(palette, func(other color.Color) bool { return near(c, other.(color.RGBA)) })) {
			palette = append(palette, c)
		}
	}
	out := image.NewPaletted(bounds, palette)
	index := map[color.RGBA]uint8{}
	for _, c := range colors {
		index[c] = uint8(palette.Index(c))
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			out.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var small bytes.Buffer
	err = (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, out)
	return small.Bytes(), err
}

// near reports whether two colours can hardly be told apart.
func near(a, b color.RGBA) bool {
	distance := 0
	for _, d := range []int{int(a.R) - int(b.R), int(a.G) - int(b.G), int(a.B) - int(b.B)} {
		distance += max(d, -d)
	}
	return distance < apart
}
