package main

import (
	"fmt"
	"strings"
)

// roff is a man page as it grows, in the macros of man(7). What is handed to it
// is plain text: it escapes.
type roff struct{ strings.Builder }

// newRoff begins a page. Lines are neither filled up with blanks nor broken
// within words, so that what a reader copies from them is what was written.
func newRoff(name, section, date, manual string) *roff {
	p := &roff{}
	fmt.Fprintf(p, ".TH %q %q %q %q %q\n", strings.ToUpper(name), section, date, "ThoughtGate "+release, manual)
	p.WriteString(".nh\n.ad l\n")
	return p
}

// unroff makes a text mean itself: a hyphen stays one that can be copied, and
// quotes do not curl.
var unroff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

func roffPlain(text string) string { return unroff.Replace(text) }
func roffBold(text string) string  { return `\fB` + roffPlain(text) + `\fR` }
func roffSlant(text string) string { return `\fI` + roffPlain(text) + `\fR` }

func (p *roff) section(title string)    { fmt.Fprintf(p, ".SH %s\n", roffPlain(title)) }
func (p *roff) subsection(title string) { fmt.Fprintf(p, ".SS %s\n", roffPlain(title)) }

// line adds a line that is escaped already. One that begins with a dot would be
// taken for a macro.
func (p *roff) line(text string) {
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	p.WriteString(text + "\n")
}

// item adds an entry of a list: a head, escaped already, and what it means.
func (p *roff) item(head, meaning string) {
	p.WriteString(".TP\n")
	p.line(head)
	p.line(roffPlain(meaning))
}

// list adds a section of entries: in turn a head, which style escapes, and what it means.
func (p *roff) list(title string, style func(string) string, entries ...string) {
	p.section(title)
	for i := 0; i < len(entries); i += 2 {
		p.item(style(entries[i]), entries[i+1])
	}
}

// prose adds paragraphs as help texts have them: parted by empty lines, filled,
// but as they stand where lines are indented.
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
					p.line(roffPlain(line))
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
		p.line(roffPlain(line))
	}
	p.WriteString(".fi\n")
}

// seeAlso adds the last section; pages are named as tgctl(1).
func (p *roff) seeAlso(pages []string) {
	p.section("SEE ALSO")
	for i, page := range pages {
		name, number, _ := strings.Cut(page, "(")
		end := ","
		if i == len(pages)-1 {
			end = ""
		}
		p.line(roffBold(name) + "(" + number + end)
	}
}
