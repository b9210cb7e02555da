// Package provider knows what a language model of an extension is asked and what
// it answers, and lets it use tools.
//
// An extension with the permission `providers` has models. One completion is a
// question (Params) and an answer (Result), whose content are blocks: text, or
// the wish to have a tool called. A Loop has those tools called, gives the model
// their results and asks again, until it wants no more of them:
//
//	loop := provider.Loop{Provider: p, Tools: tools}
//	result, err := loop.Complete(ctx, provider.Params{Messages: ..., Tools: ...})
//
// What an extension writes is read strictly: a tool use without an id or a name,
// or with anything but an object as its input, is an error and never a guess. The
// package starts nothing and knows no registry; how a question reaches the
// extension is the business of who implements Provider, and whether a tool may
// be called that of who implements Tools.
package provider
