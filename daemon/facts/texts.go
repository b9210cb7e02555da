package facts

import "strings"

// manner describes how to examine a text.
type manner struct {
	secrets bool
	places  bool
	prose   bool // it may mention places without accessing them
}

// texts looks for secrets, and for places where secrets are kept, in one text after another.
type texts struct {
	look   *inspection
	manner manner
	at     where
	scan   scan
	places placeSearch

	// Method values, bound once.
	secret func(find) bool
	place  func(start int)
}

func (t *texts) begin(l *inspection) {
	t.look, t.secret, t.place = l, t.found, t.places.at
}

// text examines a text until it has found both a secret and a place.
func (l *inspection) text(text []byte, m manner, at where) {
	if len(text) < 4 || l.pathsOnly || l.recallOnly {
		return
	}
	t := &l.texts
	t.manner, t.at = m, at
	eachReading(text, t.reading)
	t.at, t.scan, t.places = nil, scan{}, placeSearch{}
}

// found adds a fact for a secret.
func (t *texts) found(f find) (more bool) {
	t.look.add(Secret, describe(f.kind), t.at())
	t.manner.secrets = false
	return false
}

// reading examines one reading of the text. It reports whether there is still something to look
// for.
func (t *texts) reading(reading []byte, as readAs) bool {
	l, s, p := t.look, &t.scan, &t.places
	*s = scan{engine: theEngine(), text: reading, budget: &l.budget, prose: t.manner.prose, joined: as == rejoined}
	if t.manner.secrets {
		s.secret = t.secret
	}
	*p = placeSearch{text: reading, alone: t.manner.prose}
	if t.manner.places && as != decoded && as != rejoined {
		s.place = t.place
	}
	if !s.run() {
		l.add(Secret, "it has more possible credentials than can be checked", t.at())
		t.manner.secrets = false
	}
	p.whole()
	l.work += len(reading) + s.work + p.work
	if p.what != "" {
		l.add(SecretPlace, "names "+p.what+", where credentials are kept", t.at())
		t.manner.places = false
	}
	return t.manner.secrets || t.manner.places
}

// checkMember reports whether the name of a member marks its value as a secret, and adds a fact if so.
func (l *inspection) checkMember(w *walk, name, value []byte) bool {
	what, is := judgeMember(name, value)
	if is {
		l.add(Secret, describe(what), w.path())
	}
	return is
}

func describe(kind string) string {
	noun := strings.ReplaceAll(kind, "-", " ")
	switch {
	case strings.HasSuffix(noun, "s"):
		return "looks like " + noun
	case strings.ContainsAny(noun[:1], "aeio8"):
		return "looks like an " + noun
	}
	return "looks like a " + noun
}
