// Package policy says what may happen: it is the gates visible, rule and permit.
//
// A Set is built whole from one configuration and the Cedar files that it
// names, and is never changed; a reload builds another one. A call passes three
// gates in it. Visible hides what the configuration doesn't let an agent know
// of. Rule is the first rule that matches the call. Permit is Cedar: a forbid
// refuses whatever the rule said, and where the rule says policy, a permit is
// needed. A determining permit annotated @approval("workflow") asks a person,
// and so does a rule that says approve.
//
// Each gate can only make the answer stricter, and what goes wrong is an error,
// which the caller turns into a refusal. Above all a policy that fails to
// evaluate refuses: Cedar alone would skip it, even if it is a forbid.
//
// Policies see a call as Cedar entities of the namespace ThoughtGate. A call of
// the tool delete_repo on the server github, made by Claude Code, is
//
//	principal  ThoughtGate::Agent::"claude-code"       in Session, in User
//	action     ThoughtGate::Action::"github/delete_repo"  in Action::"tools/call", in Action::"call"
//	resource   ThoughtGate::Tool::"github/delete_repo"  in Server::"github"
//	context    arguments, lists, inputResponses, params, facts, fact_details, policy_id, profile, time, session, annotations
//
// Arguments are converted by hand from the bytes of the call. Cedar's own JSON
// form would read {"__entity": ...} in an argument as an entity.
package policy
