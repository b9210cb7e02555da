package facts

import "sync"

// toolName is what the name of a tool says about the tool.
type toolName struct {
	said    toolDeeds
	secrets string // the words that say that it returns secrets, or empty
	removes bool   // it moves or removes what it names
}

func readToolName(name string) *toolName {
	clean := new(cleaner).clean([]byte(name))
	t := &toolName{said: deedsIn(name, clean)}
	t.secrets, _ = namedForSecrets(clean)
	t.removes = takesAway(clean) || t.said.foreign[acts-1] != nil
	return t
}

// toolNames caches toolName by name. It is safe for concurrent use.
type toolNames struct {
	mu    sync.RWMutex // guards known
	known map[string]*toolName
}

const (
	mostToolNames   = 1024
	longestToolName = 256 // bytes; longer names are not cached
)

func (n *toolNames) of(name string) *toolName {
	n.mu.RLock()
	t := n.known[name]
	n.mu.RUnlock()
	if t != nil {
		return t
	}
	t = readToolName(name)
	if len(name) > longestToolName {
		return t
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known == nil || len(n.known) >= mostToolNames {
		n.known = map[string]*toolName{}
	}
	n.known[name] = t
	return t
}

func (l *inspection) toolName() {
	t := l.finder.names.of(l.call.Subject)
	if t.said.deed == acts {
		l.add(Acts, "its name says "+t.said.by(acts), "")
	}
	if t.said.sends {
		l.add(Sends, "its name says "+t.said.by(sends), "")
	}
	if t.secrets != "" {
		l.add(SecretPlace, "its name says "+t.secrets, "")
	}
	l.removes = t.removes
}
