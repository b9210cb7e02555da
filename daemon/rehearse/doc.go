// Package rehearse finds out what the gate would do, without doing it.
//
// It sets up the very gate that judges calls, with people and the record played:
// a question is filed nowhere, and what is written down is read instead of kept.
// So what it answers can't drift from what happens. A Stage is such a gate with
// a memory of its own: what servers said in a session rehearsed on it is known to
// the calls that follow there, and to nobody else.
//
// Three tools for people stand on it: a call explained, files of calls with the
// verdicts that are expected, and the calls on record judged once more under
// another configuration.
package rehearse
