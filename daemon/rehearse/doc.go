// Package rehearse determines what the gate would do, without doing it.
//
// It sets up the same gate that judges calls, with substitutes for the people and the audit log: a
// question is not asked, and a record is read instead of written. So its answers can't differ from
// what happens. A Stage is such a gate with its own memory: what servers said in a session
// rehearsed on it is known only to the following calls there.
//
// It is the basis of three tools: explaining a call, testing files of calls with expected verdicts,
// and judging recorded calls again under another configuration.
package rehearse
