package gate

import (
	"errors"
	"fmt"

	"github.com/thoughtgate/thoughtgated/internal/mcp"
	"github.com/thoughtgate/thoughtgated/internal/wire"
)

// rulePage names the rule by which an address is refused that nobody may be sent
// to.
const rulePage = "built in: pages"

// page refuses what c asks when that sends somebody to a page whose address no
// agent should open, whatever the rules say of it: what opens it may be a shell,
// and who looks at it may see another one.
func (c *Call) page(r Ruling) Ruling {
	if c.Method != "elicitation/create" || c.Side != wire.FromServer || r.Move == Deny {
		return r
	}
	err := c.checkPage()
	if err == nil {
		return r
	}
	return Ruling{
		Move: Deny, Gate: "rule", Rule: rulePage, Code: mcp.CodeRule, Redact: r.Redact,
		Reason: fmt.Sprintf("the server wants the user to visit a page, and %v", err),
	}
}

// checkPage says what is wrong with the page that an elicitation leads to, nil for
// none. One that has an address leads there, whatever it calls itself.
func (c *Call) checkPage() error {
	e := &c.Envelope
	address, err := wire.Member(c.Line, e.Params, "url")
	if e.Params.Present() && err != nil {
		return errors.New("its address is said in two ways")
	}
	if !address.Present() {
		if mode, err := wire.Unquote(e.Mode, c.Line); e.Mode.Present() && (err != nil || mode != "form") {
			return errors.New("gives no address")
		}
		return nil
	}
	text, err := wire.Unquote(address, c.Line)
	if err != nil {
		return errors.New("its address is no text")
	}
	return mcp.CheckPage(text)
}
