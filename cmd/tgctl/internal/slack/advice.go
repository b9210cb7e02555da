package slack

import (
	"errors"
	"fmt"
	"time"

	api "github.com/slack-go/slack"

	"github.com/thoughtgate/thoughtgated/internal/display"
)

// advice says what an error of Slack means and what to do about it.
type advice struct {
	means, then string
	lasting     bool // waiting does not help: the token itself is the problem
}

// appPage is where the app's tokens and scopes are found.
const appPage = "the app's page at https://api.slack.com/apps"

var advices = map[string]advice{
	"invalid_auth":           {"Slack does not know the token", "Copy it again from " + appPage + ".", true},
	"not_authed":             {"Slack received no token", "Copy it again from " + appPage + ".", true},
	"token_revoked":          {"the token was revoked", "Install the app again on " + appPage + ", and use the new token.", true},
	"token_expired":          {"the token has expired", "Switch token rotation off for the app, and use a new token.", true},
	"account_inactive":       {"the app was removed from the workspace", "Install it again on " + appPage + ", and use the new token.", true},
	"not_allowed_token_type": {"this is the wrong kind of token", "The bot token begins with xoxb-, the app-level token with xapp-.", true},
	"missing_scope":          {"the app lacks a scope", "Add it under OAuth & Permissions on " + appPage + ", install the app again, and use the new token.", false},
	"channel_not_found":      {"the channel does not exist, or the app cannot see it", "Use the channel's id, from the bottom of its details; invite the app to a private channel: /invite @the-app", false},
	"not_in_channel":         {"the app is not in the channel", "Invite it there: /invite @the-app", false},
	"is_archived":            {"the channel is archived", "Name another channel in thoughtgate.yaml, then: tgctl daemon reload", false},
	"restricted_action":      {"the workspace does not allow the app to post there", "Ask an administrator of the workspace, or name another channel.", false},
	"ratelimited":            {"Slack limits the rate", "It is retried.", false},
	"user_not_in_channel":    {"the user who pressed the button is not in the channel", "Invite them to the channel.", false},
}

// explainError adds to an error of Slack what it means. doing says what was attempted.
func explainError(err error, doing string) error {
	if err == nil {
		return nil
	}
	a, ok := advices[codeOf(err)]
	if !ok {
		return fmt.Errorf("%s: %w", doing, err)
	}
	means := a.means
	if answer, ok := errors.AsType[api.SlackErrorResponse](err); ok && answer.Needed != "" {
		means += ", " + string(display.Text(answer.Needed))
	}
	return &Problem{Err: fmt.Errorf("%s: %s (%w)", doing, means, err), Hint: a.then}
}

// codeOf returns Slack's code for err, or "" if err is not from Slack.
func codeOf(err error) string {
	if answer, ok := errors.AsType[api.SlackErrorResponse](err); ok {
		if answer.Err == "rate_limited" {
			return "ratelimited"
		}
		return answer.Err
	}
	return ""
}

// lasting reports whether err is about the token, so that retrying does not help.
func lasting(err error) bool { return advices[codeOf(err)].lasting }

// limited reports whether Slack limits the rate, and for how long to wait.
func limited(err error) (time.Duration, bool) {
	var wait *api.RateLimitedError
	switch {
	case errors.As(err, &wait):
		return max(wait.RetryAfter, time.Second), true
	case codeOf(err) == "ratelimited":
		return 30 * time.Second, true
	}
	return 0, false
}

// errorWithHint formats err on one line, with the hint.
func errorWithHint(err error) display.Safe {
	line := display.Text(err.Error())
	if p, ok := errors.AsType[*Problem](err); ok && p.Hint != "" {
		line += ". " + display.Text(p.Hint)
	}
	return line
}
