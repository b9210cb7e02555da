package man

import (
	"fmt"
	"strings"

	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
)

// roff builds a man page with the macros of man(7). Its methods take plain text and
// escape it, unless they say otherwise.
type roff struct{ strings.Builder }

// newRoff begins a page. It switches justification and hyphenation off, so that text
// copied from the page is unchanged.
func newRoff(name, section, date, manual string) *roff {
	p := &roff{}
	fmt.Fprintf(p, ".TH %q %q %q %q %q\n", strings.ToUpper(name), section, date, "ThoughtGate "+ui.Release, manual)
	p.WriteString(".nh\n.ad l\n")
	return p
}

// unroff escapes text for roff: a hyphen can be copied as one, and quotes stay straight.
var unroff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

func plain(text string) string { return unroff.Replace(text) }
func bold(text string) string  { return `\fB` + plain(text) + `\fR` }
func slant(text string) string { return `\fI` + plain(text) + `\fR` }

func (p *roff) section(title string)    { fmt.Fprintf(p, ".SH %s\n", plain(title)) }
func (p *roff) subsection(title string) { fmt.Fprintf(p, ".SS %s\n", plain(title)) }

// line adds a line that must be escaped already. It keeps a leading dot from being read
// as a macro.
func (p *roff) line(text string) {
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	p.WriteString(text + "\n")
}

// item adds an entry of a list. head must be escaped already.
func (p *roff) item(head, meaning string) {
	p.WriteString(".TP\n")
	p.line(head)
	p.line(plain(meaning))
}

// list adds a section of entries. entries alternates between heads, which style escapes,
// and their meanings.
func (p *roff) list(title string, style func(string) string, entries ...string) {
	p.section(title)
	for i := 0; i < len(entries); i += 2 {
		p.item(style(entries[i]), entries[i+1])
	}
}

// prose adds paragraphs of a help text, separated by empty lines. It fills them, except
// for indented lines.
func (p *roff) prose(text string) {
	for _, block := range strings.Split(strings.TrimSpace(text), "\n\n") {
		// An indented block may follow its paragraph without an empty line.
		lines := strings.Split(strings.Trim(block, "\n"), "\n")
		for len(lines) > 0 {
			n := 1
			for n < len(lines) && strings.HasPrefix(lines[n], " ") == strings.HasPrefix(lines[0], " ") {
				n++
			}
			if strings.HasPrefix(lines[0], " ") {
				p.asItStands(lines[:n])
			} else {
				p.WriteString(".PP\n")
				for _, line := range lines[:n] {
					p.line(plain(line))
				}
			}
			lines = lines[n:]
		}
	}
}

// asItStands adds lines that are not filled.
func (p *roff) asItStands(lines []string) {
	p.WriteString(".PP\n.nf\n")
	for _, line := range lines {
		p.line(plain(line))
	}
	p.WriteString(".fi\n")
}

// seeAlso adds the last section. Pages are named like tgctl(1).
func (p *roff) seeAlso(pages []string) {
	p.section("SEE ALSO")
	for i, page := range pages {
		name, number, _ := strings.Cut(page, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		p.line(bold(name) + "(" + number + end)
	}
}
