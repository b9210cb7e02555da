// Package policy decides what a call may do: it implements the gates visible, rule and permit.
//
// A Set is built from one configuration and the Cedar files that it names. It is immutable; a
// reload builds another one. A call passes three gates in it. Visible hides what the
// configuration does not let an agent see. Rule applies the first rule that matches the call.
// Permit is Cedar: a forbid denies the call whatever the rule says, and a rule with the action
// policy needs a permit. A determining permit with the annotation @approval("workflow") asks a
// person, and so does a rule with the action approve.
//
// Each gate can only make the verdict stricter. If there is an error, it is returned, and the
// caller must not forward the call. This includes a policy that cannot be evaluated: Cedar alone
// would skip it, even if it is a forbid.
//
// Policies see a call as Cedar entities of the namespace ThoughtGate. A call of the tool
// delete_repo on the server github, made by Claude Code, is
//
//	principal  ThoughtGate::Agent::"claude-code"       in Session, in User
//	action     ThoughtGate::Action::"github/delete_repo"  in Action::"tools/call", in Action::"call"
//	resource   ThoughtGate::Tool::"github/delete_repo"  in Server::"github"
//	context    arguments, lists, inputResponses, params, facts, fact_details, policy_id, profile, time, session, annotations
//
// This package converts the arguments itself, from the bytes of the call. Cedar's own JSON
// decoder would read {"__entity": ...} in an argument as an entity.
//
// The package is larger than most, because a ruling, its explanation and the check of policies at
// load time must agree on what a rule matches and on the entities, types and values that Cedar
// sees:
//
//	set, load, policy, project      what is loaded, and how
//	subject, visible, rule, permit  the gates
//	entity, context, value, index   what Cedar evaluates
//	reading, schema, validate, check, tool
//	                                the check of policies at load time
//	explain, detail, partly         explanation and listing of rulings, and rulings on recorded calls
package policy
