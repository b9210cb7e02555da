package pin

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/phrases"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// Suspicion is a suspicious part of a definition, which a person should see before an agent does.
type Suspicion struct {
	What  string `json:"what"`            // such as "it gives orders to a model"
	Quote string `json:"quote,omitempty"` // untrusted text that was found: for a person, never for a model
	Where string `json:"where,omitempty"` // path of the member, such as inputSchema.properties.path.description
}

// String returns the suspicion on one line, for a person.
func (s Suspicion) String() string {
	text := s.What
	if s.Quote != "" {
		text += fmt.Sprintf(" (%q)", s.Quote)
	}
	if s.Where != "" {
		text += ", in " + s.Where
	}
	return text
}

// sayAll returns suspicions on one line.
func sayAll(suspicions []Suspicion) string {
	var all []string
	for _, s := range suspicions {
		all = append(all, s.String())
	}
	return strings.Join(all, "; ")
}

const (
	orders      = "it gives orders to a model"
	unseen      = "it has text that a person can't see"
	credentials = "it names a place where credentials are kept"
	shadows     = "it names the tool of another server"
	tooLong     = "it is too long to review"
)

const (
	// mostSuspicions is how many suspicions of one definition are kept. More would not help a person.
	mostSuspicions = 8
	// mostMentions is how many words of one definition are kept that may be names of other tools.
	mostMentions = 256
	longestQuote = 80
)

// examiner examines one definition.
type examiner struct {
	about    about
	members  map[string]bool // names of members; such a word is not taken for the name of a tool
	mentions map[string]bool
	budget   *int // bytes that may still be examined
	tries    int  // bytes on which expressions may still be tried
}

// means maps each kind of phrase to its description.
var means = map[phrases.Kind]string{phrases.Orders: orders, phrases.Credentials: credentials}

// examineDefinition examines a definition. budget limits the bytes examined over several definitions; when it
// is used up, that is a suspicion.
func examineDefinition(name string, raw []byte, budget *int) about {
	n := examiner{about: about{Size: len(raw)}, members: map[string]bool{}, mentions: map[string]bool{}, budget: budget, tries: lookBudget}
	n.name(name)
	switch {
	case len(raw) > maxKept:
		n.suspicion(tooLong, fmt.Sprintf("%d bytes", len(raw)), "")
	case *budget < len(raw):
		n.suspicion(tooLong, "together with the rest of its list", "")
	default:
		*budget -= len(raw)
		n.walk(raw)
		annotations, err := annotationsOf(raw)
		n.about.Annotations, n.about.Destroys = annotations, err != nil || destructive(annotations)
	}
	for word := range n.mentions {
		if !n.members[word] && word != strings.ToLower(name) && len(n.about.Mentions) < mostMentions {
			n.about.Mentions = append(n.about.Mentions, word)
		}
	}
	slices.Sort(n.about.Mentions)
	return n.about
}

// maxAnnotations is the limit of annotations in bytes. Longer ones are ignored.
const maxAnnotations = 4 << 10

func annotationsOf(raw []byte) ([]byte, error) {
	at, err := wire.Member(raw, wire.Span{End: len(raw)}, "annotations")
	if err != nil || !at.Present() || at.Len() > maxAnnotations || raw[at.Start] != '{' {
		return nil, err
	}
	return bytes.Clone(at.Of(raw)), nil
}

func (n *examiner) suspicion(what, quote, where string) {
	if len(quote) > longestQuote {
		quote = strings.ToValidUTF8(quote[:longestQuote], "") + "…"
	}
	for _, s := range n.about.Suspicions {
		if s.What == what && s.Where == where {
			return
		}
	}
	if len(n.about.Suspicions) < mostSuspicions {
		n.about.Suspicions = append(n.about.Suspicions, Suspicion{what, quote, where})
	}
}

// name examines the name of a thing.
func (n *examiner) name(name string) {
	if shown := string(display.Name(name)); shown != name {
		n.suspicion(unseen, shown, "name")
	}
}

// walk examines every string of the definition, including names of members.
func (n *examiner) walk(raw []byte) {
	// The line was read strictly before, but a string may contain half a surrogate pair.
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowInvalidUTF8(true))
	for {
		token, err := d.ReadToken()
		if err != nil {
			return // the end
		}
		if token.Kind() != '"' {
			continue
		}
		text := token.String()
		if kind, length := d.StackIndex(d.StackDepth()); kind == '{' && length%2 == 1 {
			n.members[strings.ToLower(text)] = true
		}
		n.text(text, func() string { return dotted(d.StackPointer()) })
	}
}

// dotted converts a JSON pointer to a path with dots.
func dotted(p jsontext.Pointer) string {
	var parts []string
	for part := range p.Tokens() {
		parts = append(parts, part)
	}
	return strings.Join(parts, ".")
}

func (n *examiner) text(text string, where func() string) {
	if len(text) < 3 {
		return
	}
	if found := notSeen(text); found != "" {
		n.suspicion(unseen, found, where())
	}
	folded := display.Folded(text)
	n.told(folded, where)
	for _, run := range encoded.FindAllString(text, 16) {
		if decoded := decode(run); decoded != "" {
			n.told(display.Folded(decoded), where)
		}
	}
	n.words(text)
}

// told looks in folded text for phrases addressed to a model.
func (n *examiner) told(folded string, where func() string) {
	whole := phrases.Find(folded, &n.tries, func(what phrases.Kind, quote string) bool {
		n.suspicion(means[what], quote, where())
		return true
	})
	if !whole {
		n.suspicion(tooLong, "it has more text that may be orders than is checked", "")
	}
}

// encoded matches what may be base64.
var encoded = regexp.MustCompile(`[A-Za-z0-9+/_-]{24,}={0,2}`)

// decode returns the decoded text of a base64 string, or "" if it is not text.
func decode(run string) string {
	run = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(run, "="))
	if len(run)%4 == 1 { // not a base64 length: the last letter does not belong to it
		run = run[:len(run)-1]
	}
	b, err := base64.RawStdEncoding.DecodeString(run)
	if err != nil || bytes.ContainsFunc(b, func(r rune) bool { return !unicode.IsPrint(r) && !unicode.IsSpace(r) }) {
		return ""
	}
	return string(b)
}

// notSeen returns a part of text that a reader would not see, or not see as what it is.
func notSeen(text string) string {
	if at := strings.Index(text, "<!--"); at >= 0 {
		return text[at:]
	}
	var before rune
	blanks, lines := 0, 0
	for i, r := range text {
		switch {
		case r == '\n':
			lines++
			blanks++
		case unicode.IsSpace(r):
			blanks++
		case wire.Unseen(r) && !belongs(r, before):
			return fmt.Sprintf("U+%04X before %.20q", r, text[i+len(string(r)):])
		default:
			if blanks >= 200 || lines >= 30 {
				return text[i:] // moved out of sight
			}
			blanks, lines = 0, 0
		}
		before = r
	}
	return display.Disguised(text)
}

// belongs reports whether an invisible character is legitimate after before: in an emoji, or
// between letters of a script that needs it.
func belongs(r, before rune) bool {
	switch r {
	case '\ufe0e', '\ufe0f':
		return before > ' ' && !unicode.IsLetter(before)
	case '\u200c', '\u200d':
		return before == '\ufe0f' || unicode.In(before, unicode.So, unicode.Sk, unicode.Mn, unicode.Mc) || before >= 0x590 && unicode.IsLetter(before)
	}
	return false
}

// words records the words that are likely to be names of tools: those with an underscore, hyphen or
// dot inside, or a capital letter after a small one.
func (n *examiner) words(text string) {
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool {
		return r >= 0x80 || !('a' <= r|0x20 && r|0x20 <= 'z' || '0' <= r && r <= '9' || r == '_' || r == '-' || r == '.')
	}) {
		word = strings.Trim(word, "_-.")
		if i := strings.LastIndex(word, "__"); i >= 0 { // agents write mcp__server__tool
			word = word[i+2:]
		}
		if compound(word) && len(n.mentions) < 4*mostMentions {
			n.mentions[strings.ToLower(word)] = true
		}
	}
}

// compound reports whether a word has several parts, as most names of tools do and words of a
// language do not.
func compound(word string) bool {
	if len(word) < 5 || len(word) > maxName {
		return false
	}
	for i := 1; i < len(word); i++ {
		c := word[i]
		if c == '_' || c == '-' || c == '.' || 'A' <= c && c <= 'Z' && 'a' <= word[i-1] && word[i-1] <= 'z' {
			return true
		}
	}
	return false
}
