package facts

// lookalikes maps an ASCII character to characters that a reader or a model mistakes for it. It
// omits the forms that Unicode itself relates to another character (full-width, mathematical and
// circled letters, letters with accents), which are derived, see reduced. The list is maintained
// by hand. It need not cover all scripts, only what people find when they look for a substitute.
var lookalikes = map[rune]string{
	'a': "аɑαᴀ⍺", 'A': "АΑᎪᗅꓮ",
	'b': "ьЬвƄƃɓβʙᖯᏏ", 'B': "ВΒᏴᗷꓐ",
	'c': "сϲᴄƈⲥ", 'C': "СϹᏟꓚⲤ",
	'd': "ԁɗđðᴅᏧᑯꓒ", 'D': "ĐÐᎠᗞᗪꓓԀ",
	'e': "еєҽεɛəᴇ℮", 'E': "ЕΕƐᎬꓰⴹ⋿",
	'f': "ƒϝքꬵꜰẝ", 'F': "ϜᖴꓝƑ",
	'g': "ɡցǥԍɢᶃƍ", 'G': "ԌᏀᏳꓖ",
	'h': "һհнħɦʜᏂ", 'H': "НΗҺĦᎻᕼꓧⲎ",
	'i': "іıιɩɪᎥꙇ⍳", 'I': "ІΙӀƖꓲⲒⵏᛁ",
	'j': "јϳȷɟᴊ", 'J': "ЈͿᎫᒍꓙ",
	'k': "кκқƙĸᴋⲕ", 'K': "КΚҚᏦᛕꓗⲔ",
	'l': "ӏłɫƚǀʟ∣", 'L': "ŁᏞᒪꓡⳐ",
	'm': "мɱᴍ", 'M': "МΜϺᎷᗰᛖꓟⲘ",
	'n': "ոռпηɴƞ", 'N': "ΝꓠⲚ",
	'o': "оοօσøɵᴏჿଠഠဝዐⲟס", 'O': "ОΟՕØⵔꓳⲞ〇",
	'p': "рρþƿᴘⲣ⍴", 'P': "РΡᏢᑭꓑⲢ",
	'q': "ԛգզɋꞯ", 'Q': "Ԛⵕ",
	'r': "гᴦꭇꭈɾɼʀⲅ", 'R': "ƦᎡᏒᖇꓣ",
	's': "ѕꜱƽʂꙅ", 'S': "ЅՏᏕᏚꓢ",
	't': "тτŧƭᴛⲧ", 'T': "ТΤŦᎢꓔⲦ⊤⟙",
	'u': "υսᴜʋꞟꭎꭒ", 'U': "ՍᑌꓴƱ⋃∪",
	'v': "ѵνᴠ∨", 'V': "ѴᏙᐯꓦⴸ",
	'w': "ԝѡաωɯᴡ", 'W': "ԜᎳᏔꓪ",
	'x': "хχ×ᕁᕽⲭ", 'X': "ХΧꓫⲬ᙭ⵝ╳",
	'y': "уγүყɣʏỿ", 'Y': "УΥҮᎩᎽꓬⲨ",
	'z': "ᴢʐƶ", 'Z': "ΖƵᏃꓜ",
	'2': "Ƨ", '3': "ЗзƷȜ", '4': "Ꮞ", '5': "Ƽ", '6': "бᏮ", '8': "Ȣ",
	'-': "‐‒–⁃−➖", '_': "ˍ", '.': "。۔ꓸ", '/': "⁄∕╱", ':': "։ː꞉∶",
}

// glued are ligatures, with the letters that they stand for.
var glued = map[rune]string{'æ': "ae", 'Æ': "AE", 'ӕ': "ae", 'Ӕ': "AE", 'œ': "oe", 'Œ': "OE", 'ß': "ss", 'ẞ': "SS", 'ꜳ': "aa", 'ꝏ': "oo"}

// enclosed holds the first letter of each alphabet of enclosed letters that Unicode does not
// relate to plain letters.
var enclosed = []rune{0x1F150, 0x1F170, 0x1F1E6}

// unseen are invisible characters whose Unicode category does not say so.
var unseen = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
