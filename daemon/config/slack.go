package config

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Names of the variables or credentials that hold the tokens of a Slack app,
// where a destination names none.
const (
	slackBotToken = "SLACK_BOT_TOKEN"
	slackAppToken = "SLACK_APP_TOKEN"
)

var (
	slackID       = regexp.MustCompile(`^[CGD][A-Z0-9]{2,}$`)
	slackApprover = regexp.MustCompile(`^[UW][A-Z0-9]{2,}$`)
	slackMention  = regexp.MustCompile(`^([UWS][A-Z0-9]{2,}|here|channel|everyone)$`)
	variableName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// slackName is how long the name of a channel may be, in characters.
const slackName = 80

// isSlackChannel reports whether s can be the id of a channel or, with # or without,
// its name. A regular expression that counts characters of all scripts takes
// megabytes.
func isSlackChannel(s string) bool {
	if slackID.MatchString(s) {
		return true
	}
	n := 0
	for _, r := range strings.TrimPrefix(s, "#") {
		if !unicode.In(r, unicode.Ll, unicode.Lo, unicode.N) && r != '_' && r != '-' {
			return false
		}
		n++
	}
	return n > 0 && n <= slackName
}

// slack checks a destination. What is no id would never match the id that Slack
// tells of whoever pressed a button, so it is an error and not a name to look up.
func (c *checker) slack(d *Destination) {
	if d.Type != DestinationSlack {
		if d.Channel != "" || d.BotTokenEnv != "" || d.AppTokenEnv != "" || len(d.Mention) > 0 || len(d.Approvers) > 0 {
			c.wrong(d, "", "write type: slack", "channel, tokens, mention and approvers belong to a destination of type slack")
		}
		return
	}
	switch {
	case d.Channel == "":
		c.wrong(d, "", "", "a slack destination needs a channel")
	case !isSlackChannel(d.Channel):
		c.wrong(&d.Channel, "", "write its id, as C0123ABCD, or its name", "%q can't be a channel of Slack", d.Channel)
	}
	if len(d.Approvers) == 0 {
		c.wrong(d, "", "list the ids of those whose answer counts", "a slack destination needs approvers")
	}
	for i := range d.Approvers {
		if !slackApprover.MatchString(d.Approvers[i]) {
			c.wrong(&d.Approvers[i], "", "write the member id from their profile, as U0123ABCD", "%q is not the id of a user of Slack", d.Approvers[i])
		}
	}
	for i := range d.Mention {
		if !slackMention.MatchString(d.Mention[i]) {
			c.wrong(&d.Mention[i], "", "write the id of a user or user group, or here, channel, everyone", "%q can't be mentioned on Slack", d.Mention[i])
		}
	}
	// The value may be the token itself, and then must not be shown.
	for _, name := range []*string{&d.BotTokenEnv, &d.AppTokenEnv} {
		if *name != "" && !variableName.MatchString(*name) {
			c.wrong(name, "", "the token itself has no place in this file", "this must be the name of the variable or credential that holds the token")
		}
	}
	if d.BotTokenEnv != "" && d.BotTokenEnv == d.AppTokenEnv {
		c.wrong(&d.AppTokenEnv, "", "", "the bot token and the app token are two different ones")
	}
}

// complete fills in the names of the tokens.
func (d *Destination) complete() {
	if d.Type != DestinationSlack {
		return
	}
	if d.BotTokenEnv == "" {
		d.BotTokenEnv = slackBotToken
	}
	if d.AppTokenEnv == "" {
		d.AppTokenEnv = slackAppToken
	}
}

// Answers reports whether the user of that id may answer on Slack what w asks.
func (w *Workflow) Answers(user string) bool {
	return w.Destination.Type == DestinationSlack && slices.Contains(w.Destination.Approvers, user)
}
