package facts

// lookalikes are letters that a reader, or a model, takes for the ASCII
// character before them. What Unicode itself calls a form of another character
// (full width, mathematical, circled letters, letters with accents) is not here:
// it is derived, see fold. The list is kept by hand; it need not know every letter
// of every script, only what people find when they look for a letter that passes.
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

// glued are letters that are drawn as two.
var glued = map[rune]string{'æ': "ae", 'Æ': "AE", 'ӕ': "ae", 'Ӕ': "AE", 'œ': "oe", 'Œ': "OE", 'ß': "ss", 'ẞ': "SS", 'ꜳ': "aa", 'ꝏ': "oo"}

// enclosed are the alphabets in boxes and bubbles that Unicode does not call
// forms of letters; each begins with A.
var enclosed = []rune{0x1F150, 0x1F170, 0x1F1E6}

// unseen are characters that leave no mark, and are not called so by their class.
var unseen = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
