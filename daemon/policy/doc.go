// Package policy decides what may happen: it is the gates visible, rule and permit.
//
// A Set is built from one configuration and the Cedar files that it names, and is
// never changed; a reload builds another one. A call passes three gates in it.
// Visible hides what the configuration doesn't let an agent see. Rule is the first
// rule that matches the call. Permit is Cedar: a forbid refuses whatever the rule
// says, and a rule with the action policy needs a permit. A determining permit that
// is annotated with @approval("workflow") asks a person, and so does a rule with the
// action approve.
//
// Each gate can only make the answer stricter. An error is returned, and the caller
// refuses the call. Above all, a policy that can't be evaluated refuses: Cedar alone
// would skip it, even if it is a forbid.
//
// Policies see a call as Cedar entities of the namespace ThoughtGate. A call of
// the tool delete_repo on the server github, made by Claude Code, is
//
//	principal  ThoughtGate::Agent::"claude-code"       in Session, in User
//	action     ThoughtGate::Action::"github/delete_repo"  in Action::"tools/call", in Action::"call"
//	resource   ThoughtGate::Tool::"github/delete_repo"  in Server::"github"
//	context    arguments, lists, inputResponses, params, facts, fact_details, policy_id, profile, time, session, annotations
//
// Arguments are converted from the bytes of the call by code of this package. Cedar's
// own JSON form would read {"__entity": ...} in an argument as an entity.
//
// The package is larger than most, since a ruling, its explanation, and the check of
// the policies when they are loaded have to agree on what a rule matches and on the
// entities, types and values that Cedar sees:
//
//	set, load, policy, project      what is loaded, and how
//	subject, visible, rule, permit  the gates
//	entity, context, value, index   what Cedar evaluates
//	reading, schema, validate, check, tool
//	                                what is checked of policies before a call comes
//	explain, detail, partly         rulings explained, listed, and made of what is on record
package policy
