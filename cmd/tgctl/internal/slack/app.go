package slack

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	api "github.com/slack-go/slack"

	"github.com/thoughtgate/thoughtgated/internal/display"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// app is one Slack app that asks questions.
type app struct {
	o      *Options
	names  names   // names of its tokens
	all    []names // token names of every app in use
	from   tokens  // where the tokens came from; the tokens themselves are empty
	slack  *api.Client
	me     *api.AuthTestResponse
	memory *memory

	lanesCame chan struct{} // holds a token when newLanes has lanes for deliver to run

	mu       sync.Mutex // guards the fields below and every card
	cards    map[string]*card
	lanes    map[string]*lane // by channel
	newLanes []*lane          // that deliver has not begun to run
	seen     []string         // ids of the latest envelopes
	recorded chan struct{}    // closed and replaced whenever a change to a card was recorded
}

// signIn reads an app's tokens and asks Slack whom the bot token belongs to.
func signIn(ctx context.Context, o *Options, n names) (*app, error) {
	at, err := address(o.Getenv)
	if err != nil {
		return nil, err
	}
	t, err := readTokens(o.Getenv, n)
	if err != nil {
		return nil, err
	}
	a := &app{o: o, names: n, from: tokens{botFrom: t.botFrom, appFrom: t.appFrom}, lanesCame: make(chan struct{}, 1), cards: map[string]*card{}, lanes: map[string]*lane{},
		recorded: make(chan struct{})}
	a.slack = api.New(t.bot, api.OptionAppLevelToken(t.app), api.OptionAPIURL(at), api.OptionHTTPClient(newHTTP()))
	a.me, err = a.slack.AuthTestContext(ctx)
	if err != nil {
		return nil, explainError(err, "sign in to Slack with the bot token from "+t.botFrom)
	}
	return a, nil
}

// serves lists the workflows that ask with this app, with their channels.
func (a *app) serves(flows map[string]*pb.PolicyWorkflow) display.Safe {
	var words []string
	for _, w := range flows {
		if tokensOf(w) == a.names {
			words = append(words, string(display.Name(w.GetName()))+" in "+string(display.Name(w.GetSlack().GetChannel())))
		}
	}
	slices.Sort(words)
	return display.Safe(strings.Join(words, ", "))
}

// Check signs in to Slack like Run, requests a Socket Mode address, and posts a message to each
// channel and deletes it. It reports its progress with o.Say and returns the first error.
func Check(ctx context.Context, o Options) error {
	flows, err := anyWorkflows(ctx, o.Gate)
	if err != nil {
		return err
	}
	for _, n := range tokenNames(flows) {
		a, err := signIn(ctx, &o, n)
		if err != nil {
			return err
		}
		o.Say("bot token: %s in %s (from %s)", display.Name(a.me.User), display.Text(a.me.Team), display.Text(a.from.botFrom))
		if _, _, err := a.slack.StartSocketModeContext(ctx); err != nil {
			return explainError(err, "open Socket Mode with the app-level token from "+a.from.appFrom)
		}
		o.Say("app-level token: Socket Mode can be opened (from %s)", display.Text(a.from.appFrom))
		if err := a.checkChannels(ctx, flows); err != nil {
			return err
		}
	}
	return nil
}

// checkChannels posts to each channel that this app asks in.
func (a *app) checkChannels(ctx context.Context, flows map[string]*pb.PolicyWorkflow) error {
	for _, name := range slices.Sorted(maps.Keys(flows)) {
		w, to := flows[name], flows[name].GetSlack()
		if tokensOf(w) != a.names {
			continue
		}
		p := &post{text: "ThoughtGate: this checks that questions of workflow " + code(display.Name(name), 100) + " can be posted here."}
		p.add(section(p.text))
		channel, ts, err := a.slack.PostMessageContext(ctx, to.GetChannel(), p.options()...)
		if err == nil {
			_, _, err = a.slack.DeleteMessageContext(ctx, channel, ts)
		}
		if err != nil {
			return explainError(err, "post to "+to.GetChannel()+" for workflow "+name)
		}
		yes := ""
		if w.GetRequire() == levelPresence || !acceptsApproval(w) {
			yes = "; they can only deny on Slack"
		}
		a.o.Say("workflow %s: posted a message to %s and deleted it; approvers: %s%s",
			display.Name(name), display.Name(to.GetChannel()), display.Text(strings.Join(to.GetApprovers(), ", ")), yes)
	}
	return nil
}

// options returns the options to send a message with.
func (p *post) options() []api.MsgOption {
	return []api.MsgOption{
		api.MsgOptionText(p.text, false), api.MsgOptionBlocks(p.blocks...), api.MsgOptionParse(false), api.MsgOptionLinkNames(false),
		api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
	}
}

// whisper shows text to one user only, in a thread if thread is not empty.
func (a *app) whisper(ctx context.Context, channel, thread, user, text string) {
	p := &post{text: text}
	p.add(section(text))
	options := p.options()
	if thread != "" {
		options = append(options, api.MsgOptionTS(thread))
	}
	for try := 0; ; try++ {
		_, err := a.slack.PostEphemeralContext(ctx, channel, user, options...)
		if wait, ok := limited(err); ok && try == 0 && sleep(ctx, wait) == nil {
			continue
		}
		if err != nil && ctx.Err() == nil {
			a.o.Say("%s", errorWithHint(explainError(err, fmt.Sprintf("send a reply to %s", display.Name(user)))))
		}
		return
	}
}
