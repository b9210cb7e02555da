package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/record"
)

// A rule may say that the files which a call destroys are copied before the call is forwarded.
// Whether they can be copied is found out before a person is asked, and again when the call is
// judged after the answer. It is a fact, so that the person sees it, and an approval or a grant
// of a call whose files can be brought back does not hold for one whose files can't be.
const (
	// Undo is the fact that what a call destroys will be copied.
	Undo = "undo"
	// NoUndo is the fact that it can't be copied, or not all of it.
	NoUndo = "no-undo"
)

const (
	// checkCopyTimeout is how long it may take to look at the files.
	checkCopyTimeout = time.Second
	// keepCopyTimeout is how long an approved call may wait for the copy.
	keepCopyTimeout = 10 * time.Second
)

// Copies keeps copies of files that calls destroy. Its methods return soon after ctx ends, and
// are safe for concurrent use.
type Copies interface {
	// Check says what a copy would have. The error says why there can be none.
	Check(ctx context.Context, loss *Loss) (Copied, error)
	// Keep makes a copy, which id names from then on. With whole, it fails if anything is
	// left out.
	Keep(ctx context.Context, id string, loss *Loss, whole bool) error
}

// Copied says what a copy has.
type Copied struct {
	Files int
	Left  []string // what is left out, with the reason
}

// checkCopy finds out whether the files that a call destroys can be copied, if a rule wants it.
func (g *Gate) checkCopy(ctx context.Context, c *Call) bool {
	if g.Copies == nil || c.Loses == nil || c.ruling.Move != Ask || !c.ruling.Undo || c.Profile == Development {
		return false
	}
	ctx, cancel := context.WithTimeoutCause(ctx, checkCopyTimeout, errors.New("it takes too long to look at the files"))
	defer cancel()
	copied, err := g.Copies.Check(ctx, c.Loses)
	if err != nil {
		c.addCopyFact(NoUndo, "no copy can be kept: "+causeOf(ctx, err).Error())
		return false
	}
	if copied.Files == 0 && len(copied.Left) == 0 {
		return false // nothing is there any more
	}
	if copied.Files > 0 {
		c.addCopyFact(Undo, "a copy of "+Plural(copied.Files, "file")+" will be kept")
	}
	const most = 3
	left := copied.Left[:min(most, len(copied.Left))]
	if more := len(copied.Left) - len(left); more > 0 {
		left = append(slices.Clip(left), fmt.Sprintf("%d more", more))
	}
	if c.Loses.More {
		left = append(slices.Clip(left), "what else is destroyed")
	}
	if len(left) > 0 {
		c.addCopyFact(NoUndo, "no copy can be kept of "+strings.Join(left, ", "))
	}
	return false
}

// addCopyFact adds a fact, also to the reason, which is shown where facts are not.
func (c *Call) addCopyFact(name, detail string) {
	detail = strings.ToValidUTF8(detail, "\uFFFD")
	c.facts = append(c.facts, Fact{Name: name, Detail: detail})
	c.ruling.Reason += "; " + detail
}

// keepCopy copies what a call destroys, if that was promised. r is the call's record.
func (g *Gate) keepCopy(ctx context.Context, c *Call, r *record.Record) error {
	if !slices.Contains(r.Facts, Undo) {
		return nil
	}
	id := r.Approval
	if id == "" || r.Grant != "" { // a grant is for many calls
		id = c.ID
	}
	ctx, cancel := context.WithTimeoutCause(ctx, keepCopyTimeout, fmt.Errorf("it takes longer than %v", keepCopyTimeout))
	defer cancel()
	if err := g.Copies.Keep(ctx, id, c.Loses, !slices.Contains(r.Facts, NoUndo)); err != nil {
		return fmt.Errorf("it was approved with a copy of what it destroys, and the copy could not be made (%w); nothing was run", causeOf(ctx, err))
	}
	return nil
}

// causeOf returns why ctx has ended, if it has, otherwise err.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}
