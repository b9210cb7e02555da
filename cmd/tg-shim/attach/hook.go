package attach

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// HookEvent holds the fields of HookRequest, except Protocol.
type HookEvent struct {
	Build, Agent string
	Event        []byte
	Session, Cwd string
	Patience     time.Duration // 0 if not set
}

// HookAnswer holds the fields of HookResponse.
type HookAnswer struct {
	Stdout, Stderr []byte
	Status         int
}

// Hook has the daemon judge what an agent reports to its hook.
func (d Daemon) Hook(ctx context.Context, e *HookEvent) (*HookAnswer, error) {
	reply, err := d.call(ctx, service+"Hook", e.encode())
	if err != nil {
		return nil, err
	}
	a := &HookAnswer{}
	err = fields(reply, func(field protowire.Number, n uint64) {
		if field == 3 {
			a.Status = int(int32(n))
		}
	}, func(field protowire.Number, b []byte) {
		switch field {
		case 1:
			a.Stdout = b
		case 2:
			a.Stderr = b
		}
	})
	if err != nil {
		return nil, &Status{Code: codeInternal, Message: fmt.Sprintf("the daemon's answer can't be read: %v", err)}
	}
	return a, nil
}

func (e *HookEvent) encode() []byte {
	var b message
	b.number(1, Protocol)
	b.text(2, e.Build)
	b.text(3, e.Agent)
	b.bytes(4, e.Event)
	b.text(5, e.Session)
	b.text(6, e.Cwd)
	b.duration(7, e.Patience)
	return b
}
