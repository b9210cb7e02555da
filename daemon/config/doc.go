// Package config reads thoughtgate.yaml.
//
// A configuration that can be read in two ways is worse than none, so the file
// is read strictly: a key that nobody knows, a value of the wrong kind, a key
// written twice, an alias or a tag is an error, and all errors of a file are
// told together, each with its line and column and with what was expected
// there. Nothing is taken over from a file that has an error.
//
//	schema: 1
//	governance:
//	  rules:
//	    - match: "delete_*"
//	      action: approve
//	      description: "it deletes something"
//	    - match: "*"
//	      source: payments
//	      action: deny
//
// What a section leaves out has its default. The default of the section
// governance is a set of rules of its own, see Default: a file without that
// section is as careful as no file at all.
//
// The Go types are the one table of what may be written. The decoder reads
// keys, bounds and explanations from their tags, and so does Schema, which
// describes the file to editors.
//
// A scalar may name variables of the environment, ${NAME} or ${NAME:-default}.
// They are put in after parsing, so a value can't add a key or a rule; $${ is a
// plain ${.
package config
