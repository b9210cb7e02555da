package dashboard

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/thoughtgate/thoughtgated/client"
	"github.com/thoughtgate/thoughtgated/client/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/approval"
	commands "github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/inbox"
	"github.com/thoughtgate/thoughtgated/cmd/tgctl/internal/ui"
	"github.com/thoughtgate/thoughtgated/internal/display"
	"github.com/thoughtgate/thoughtgated/internal/private"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// shownBytes is how long the arguments of a call may be to be approved on the page. Longer ones are cut.
const shownBytes = 64 << 10

func subjectText(subject []byte) string { return hex.EncodeToString(subject) }

// whole is a question in full.
type whole struct {
	ID      display.Safe `json:"id"`
	Subject string       `json:"subject"`
	Open    bool         `json:"open"`
	Sheet   []line       `json:"sheet"`
	Params  display.Safe `json:"params"` // on several lines
	Bytes   int          `json:"bytes"`
	Cut     bool         `json:"cut"`  // Params is only the beginning
	Past    []toned      `json:"past"` // what happened before
	Offer   offer        `json:"offer"`
}

// line is a name and a value of a sheet.
type line struct {
	Name  string       `json:"name"`
	Value display.Safe `json:"value"`
	Tone  string       `json:"tone"`
}

func linesOf(s *ui.Sheet) []line {
	var all []line
	for i, name := range s.Names {
		all = append(all, line{name, s.Values[i], toneWords[s.Tones[i]]})
	}
	return all
}

// offer is whether the page offers to approve.
type offer struct {
	Approve bool         `json:"approve"`
	Proof   bool         `json:"proof"` // with a passphrase or a code
	Why     display.Safe `json:"why"`   // why not, and what to do instead
}

// question returns one question in full.
func (s *server) question(ctx context.Context, r *http.Request) (any, error) {
	id := r.FormValue("id")
	q, err := s.client.GetApproval(ctx, id)
	if err != nil {
		return nil, approval.Failure(id, err)
	}
	sheet := approval.Sheet(q, s.app.Now())
	params := approval.ShownParams(q)
	out := &whole{ID: display.Name(q.GetId()), Subject: subjectText(q.GetSubject()), Open: approval.IsOpen(q), Sheet: linesOf(sheet), Bytes: len(params)}
	if out.Cut = len(params) > shownBytes; out.Cut {
		out.Params = display.Bytes(params[:shownBytes])
	} else if len(params) > 0 {
		out.Params = display.JSON(params, 0)
	}
	if out.Open {
		for _, l := range commands.PastLines(ctx, s.client, q, s.app.Now()) {
			out.Past = append(out.Past, toned{l.Text, toneWords[l.Tone]})
		}
		out.Offer, err = s.offerOf(ctx, q)
	}
	return out, err
}

// offerOf returns whether the page offers to approve q. The daemon decides again.
func (s *server) offerOf(ctx context.Context, q *pb.Approval) (offer, error) {
	workflows, err := inbox.Workflows(ctx, s.client)
	if err != nil {
		return offer{}, err
	}
	id := display.Name(q.GetId())
	surfaces := workflows[q.GetWorkflow()].GetSurfaces()
	listed := slices.Contains(surfaces, surface)
	o := offer{Approve: true, Proof: !listed || approval.NeedsProof(q)}
	no := func(why display.Safe) (offer, error) { return offer{Why: why}, nil }
	switch {
	case approval.LoginCommand(q) != "":
		return no("Nobody can approve a login; log in with: " + approval.LoginCommand(q))
	case !listed && !slices.Contains(surfaces, "terminal"):
		return no("Its workflow takes approvals only from: " + ui.NameList(surfaces))
	case len(approval.ShownParams(q)) > shownBytes:
		return no("Its arguments are too long for this page. At a terminal: tgctl approvals show " + id)
	case !o.Proof:
		return o, nil
	}
	state, err := s.client.PresenceStatus(ctx, false)
	switch {
	case err != nil:
		return offer{}, err
	case !state.GetEnrolled():
		return no("Any program can press a button here, so an approval needs your passphrase, and none is set up: tgctl presence enrol. Or approve at a terminal: tgctl approvals approve " + id)
	case state.GetLocked().AsDuration() > 0:
		return no("Passphrases are refused for " + display.Span(state.GetLocked().AsDuration()) + " more, after wrong ones. You can deny.")
	}
	return o, nil
}

// answerRequest is a person's answer.
type answerRequest struct {
	ID      string `json:"id"`
	Subject string `json:"subject"` // hex, of the question that the page has shown
	Answer  string `json:"answer"`  // approve, deny
	Note    string `json:"note"`
	Proof   string `json:"proof"` // a passphrase or a code, typed for this question
}

// said is what the page prints.
type said struct {
	Text display.Safe `json:"text"`
}

// answer answers the question that was shown, with its subject. What was typed as a proof is for this answer
// alone and is not kept.
func (s *server) answer(ctx context.Context, r *http.Request) (any, error) {
	var got answerRequest
	if err := readJSON(r, &got); err != nil {
		return nil, err
	}
	subject, err := hex.DecodeString(got.Subject)
	if err != nil || len(subject) == 0 {
		return nil, errors.New("the answer does not say to which question it is")
	}
	d := &pb.Decision{Id: got.ID, Subject: subject, Note: got.Note, Surface: surface}
	switch got.Answer {
	case "approve":
		d.Answer = pb.Answer_ANSWER_APPROVE
	case "deny":
		d.Answer = pb.Answer_ANSWER_DENY
	default:
		return nil, fmt.Errorf("unknown answer %q", got.Answer)
	}
	if d.Answer == pb.Answer_ANSWER_APPROVE && got.Proof != "" {
		if err := s.hide(ctx); err != nil {
			return nil, err
		}
		d.Proof = approval.ProofOf([]byte(got.Proof))
	}
	// An answer on its way is waited for, even if the browser leaves.
	done, err := inbox.Decide(context.WithoutCancel(ctx), s.client, d)
	clear(d.GetProof().GetPassphrase())
	clear(d.GetProof().GetCode())
	switch {
	case errors.Is(err, client.ErrDecided):
		return nil, fmt.Errorf("too late: %s", approval.EndLine(done.GetApproval()))
	case err != nil:
		return nil, errors.New(string(s.failure(got.ID, err)))
	}
	return said{approval.EndLine(done.GetApproval())}, nil
}

// failure says why an answer was not accepted.
func (s *server) failure(id string, err error) display.Safe {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden && errors.Is(err, client.ErrForbidden) {
		return approval.FailureLine(id, err) + " If the daemon was restarted since this dashboard began: start tgctl dashboard again."
	}
	return approval.FailureLine(id, err)
}

// hide keeps other programs from reading what was typed out of this process, after the daemon has seen what
// this process is.
func (s *server) hide(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hidden {
		return nil
	}
	if _, err := s.client.PresenceStatus(ctx, true); err != nil {
		return err
	}
	if err := private.NoReading(); err != nil {
		return err
	}
	s.hidden = true
	return nil
}

// revoke ends a grant.
func (s *server) revoke(ctx context.Context, r *http.Request) (any, error) {
	var got struct {
		ID string `json:"id"`
	}
	if err := readJSON(r, &got); err != nil {
		return nil, err
	}
	g, err := s.client.RevokeGrant(context.WithoutCancel(ctx), got.ID)
	if err != nil {
		return nil, errors.New(string(s.failure(got.ID, err)))
	}
	return said{"revoked " + display.Name(g.GetId()) + ": " + ui.CallName(g.GetMethod(), g.GetTool()) + " on " + display.Name(g.GetServer())}, nil
}

// maxBody limits what the page sends, in bytes.
const maxBody = 64 << 10

// readJSON reads a request of the page. It must be one object with the members of to and no others.
func readJSON(r *http.Request, to any) error {
	if kind := r.Header.Get("Content-Type"); kind != "application/json" {
		return fmt.Errorf("the request is %q, not JSON", kind)
	}
	dec := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxBody))
	dec.DisallowUnknownFields()
	if err := dec.Decode(to); err != nil {
		return errors.New("the request can't be read: " + strings.TrimPrefix(err.Error(), "json: "))
	}
	return nil
}
