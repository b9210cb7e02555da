package display

import (
	"strings"
	"unicode"
)

// What passes for ASCII is found in three steps: the characters that Unicode defines as
// forms of ASCII (foldsToASCII), the letters listed here, and the punctuation listed
// here. The lists are maintained by hand; what matters is what common terminal fonts draw
// alike.

// dotlessI passes for an i in a name.
const dotlessI = 'ı'

// twins are letters that look like an ASCII letter or digit, by script.
var twins = []struct {
	script  *unicode.RangeTable
	letters string
}{
	{unicode.Cyrillic, "абвгезікморпстухьѕјһҺԁԛԝѡѵѴӏӀүҮҽҼԍԌԐԑқАВЕЗІЇКМНОРСТУХЬЅЈԚԜԀҐᴦꙅꙄꙇꚃꮁӠӔӕꚘꚙ"},
	{unicode.Greek, "ΑΒΕΖΗΙΚΜΝΟΡΤΥΧαβγηικνορστυχωϲϹϳͿϱϒϜϝϺϻϨϩ϶ͽ"},
	{unicode.Armenian, "աեզիլհյոսռցւքօգՁՍՏՕԼՈՀՒք"},
	{unicode.Georgian, "ჿყ"},
	{unicode.Cherokee, "ᎠᎡᎢᎥᎩᎪᎫᎬᎳᎷᎻᎽᏀᏂᏃᏎᏏᏒᏔᏕᏙᏚᏞᏟᏢᏦᏧᏮᏳᏴᎦᎴᏅꭰꭱꭲꭵꭹꭺꭻꭼꮃꮇꮋꮍꮐꮓꮞꮟꮢꮤꮥꮩꮪꮮꮯꮲꮶꮷᏻᏼ"},
	{unicode.Latin, "ıƅƄƒƖƗƨƧƷƽƼƿǀȷȜȝɁɂꜱꜰꝪꝫꞟꞲꞳꬵꭇꭈꭎꭒꭚƦƐᶃᶍⱭꟷȢȣꝚꝯꝮꞫꞴꬲꬽꭣꞘꞙẝƍỿꝷŉ"},
	{nil, "ଠഠ൦ဝ໐ዐዘᐯᑌᑎᑭᑯᒍᒪᒿᕁᕼᕽᖇᖯᗅᗞᗪᗰᗷᙀᙆ᙭ⵏⵔⵕⵝⵙⴸꓲꛟꛎꛯꛫꘖꔖ〇ሀⴹᑊᐸᐳᑲᒆᒇᒈᖴᑧ᙮𑜀𑜆𑜊𑜎𑜏⍺⍳⍴℮⋿⊤⟙⤫⤬⨯╳⏽𐋵"},
}

// twinBlocks are phonetic blocks and whole scripts with so many lookalikes of ASCII
// letters that all their letters are treated alike.
var twinBlocks = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0250, Hi: 0x02af, Stride: 1}, // IPA
		{Lo: 0x16a0, Hi: 0x16ff, Stride: 1}, // Runes
		{Lo: 0x1d00, Hi: 0x1d2b, Stride: 1}, // small capitals
		{Lo: 0x1d6b, Hi: 0x1dbf, Stride: 1}, // more phonetics
		{Lo: 0x2c80, Hi: 0x2cff, Stride: 1}, // Coptic
		{Lo: 0xa4d0, Hi: 0xa4ff, Stride: 1}, // Lisu
	},
	R32: []unicode.Range32{
		{Lo: 0x10280, Hi: 0x102df, Stride: 1}, // Lycian, Carian
		{Lo: 0x10300, Hi: 0x1034f, Stride: 1}, // Old Italic, Gothic
		{Lo: 0x10400, Hi: 0x1052f, Stride: 1}, // Deseret, Shavian, Osmanya, Osage, Elbasan
		{Lo: 0x118a0, Hi: 0x118ff, Stride: 1}, // Warang Citi
		{Lo: 0x16f00, Hi: 0x16f9f, Stride: 1}, // Miao
		{Lo: 0x1d200, Hi: 0x1d245, Stride: 1}, // Greek notes
		{Lo: 0x1df00, Hi: 0x1dfff, Stride: 1}, // IPA again
		{Lo: 0x1f700, Hi: 0x1f773, Stride: 1}, // Alchemy
	},
}

// punctuation looks like a character with a meaning in paths, addresses, commands or
// JSON. It is always escaped.
const punctuation = "∕⁄╱⟋⧸⧵⟍╲∖⧹丿丶〳㇓㇔⑊᜵⁁⫽⫻" + // slashes
	"꘎܁܂𐩐꓿" + // stops
	"ː˸։∶꞉፡᛬⁚᛫᠃᠉" + // colons
	"‚‛“”„‟′″‵‶ʹʺʻʼʽˈˊˋˮ՚՝ꞌꞋ‘´¸ʾ˴˶˝〃‴‷⁗᳓" + // quotes
	"∣ǀ❘ǁ∥‖" + // bars
	"‹›❬❭❮❯❨❩❪❫❲❳❴❵〔〕᚜᚛﴾﴿⸨⸩˂˃" + // brackets
	"ǃⵑʔॽ" + // exclamation, question
	"‐‑‒⁃˗−➖" + // hyphens and minus
	"\u0384\u1ffd\u1fbd\u1fbf\u1ffe\u1fc0\u037a\uffe8\ufe58" + // Greek accents, narrow bar, small dash
	"ˍ∼⁓˜∗⁎ˆ˄➕᛭゠᐀⹀⁒ꝸ" // and the rest

// prosePunctuation is escaped in names but shown in prose, where it is common and can be
// distinguished from ASCII.
const prosePunctuation = "’–—―·。ノ│┃├└" + "，！？（）：；～"

// raised are Latin-1 forms of ASCII that are recognized by their height.
const raised = "ª²³¹º™"

// isTwin reports whether c is a letter or digit that passes for an ASCII one.
func isTwin(c rune) bool {
	if c < 0x100 {
		return false
	}
	if unicode.IsDigit(c) || unicode.Is(twinBlocks, c) {
		return true
	}
	for _, t := range twins {
		if strings.ContainsRune(t.letters, c) {
			return true
		}
	}
	return false
}

// twinScript returns the script of c, if other letters of that script would reveal to a
// reader that c is not ASCII; otherwise nil.
func twinScript(c rune) *unicode.RangeTable {
	for _, t := range twins {
		if t.script != nil && unicode.Is(t.script, c) {
			return t.script
		}
	}
	return nil
}
