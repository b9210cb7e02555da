package agentconf

// A person can give an agent the tools of an extension by an entry that starts the
// shim itself, with --extension and no server behind it. What is asked of them is
// judged already, so such an entry is left as it is; it must be one beyond doubt,
// since whatever is left alone here nobody judges.

// offersTools is why such an entry is not rewritten.
const offersTools = "the tools of an extension: calls of them are judged all the same"

// markOffered marks the entries that are the tools of extensions.
func markOffered(found *Found, env Env) {
	for s, e := range each(found.Sources) {
		if e.Ungoverned == "" && e.offered(e.form.of(s.doc.At(e.Path)), env) {
			e.Ungoverned, e.offers = offersTools, true
		}
	}
}

// offered reports whether an entry starts our own shim for an extension, and
// nothing else: another program of the name, or another daemon's socket, could be
// anything, and so could our shim with variables that change what a program does.
func (e *Entry) offered(n server, env Env) bool {
	if len(e.Args) != 2 || e.Args[0] != "--extension" || e.Args[1] == "" || !sameFile(e.vars.word(e.Command, env), env.Shim) {
		return false
	}
	for name, value := range n.env().Members() {
		if name.Text() != envSocket || env.Socket == "" || value.Text() != env.Socket {
			return false
		}
	}
	return true
}

// Offers reports whether the entry starts the tools of an extension: it is left as
// it is, and governed all the same.
func (e *Entry) Offers() bool { return e.offers }
