package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/courier"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/engine"
	"github.com/thoughtgate/thoughtgated/cmd/tg-fleet/streams"
	"github.com/thoughtgate/thoughtgated/internal/fleet/stream"
)

// A machine fills the record. The engine refuses more of it, and still takes policies and revocations.
// Nothing is lost: once there is room again, the rest comes.
func TestFullRecord(t *testing.T) {
	o := newOrganization(t)
	js, err := jetstream.New(o.asEngine(t))
	must(t, err)
	record, err := js.Stream(t.Context(), streams.AuditStream)
	must(t, err)
	config := record.CachedInfo().Config
	room := config.MaxBytes
	if room <= 0 {
		t.Errorf("the record may have %d bytes", room)
	}
	config.MaxBytes = 64 << 10
	_, err = js.UpdateStream(t.Context(), config)
	must(t, err)
	must(t, engine.Apply(t.Context(), o.admin, 1)) // leaves it so

	d, id := newLog(t, 24*stream.MaxRecords), o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"})
	must(t, id.Write(d.identity()))
	link, refused := o.link(t, id), make(chan error, 1)
	u := &courier.Uploader{Conn: link.Conn, Device: link.Device, Log: logID, Read: d.read, Failed: func(err error) {
		if errors.Is(err, streams.ErrRefused) {
			select {
			case refused <- err:
			default:
			}
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := u.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	t.Log(next(t, refused))
	use, err := engine.Recorded(t.Context(), o.admin)
	must(t, err)
	if use.Max != 64<<10 || use.Bytes > use.Max || use.Messages[link.Device] == 0 {
		t.Errorf("the record has %+v", use)
	}
	o.publish(t, nil, policyOf(t, []byte("policy")))
	other, err := o.enrol(t, engine.Grant{Role: engine.Device, Group: "dev"}).Device()
	must(t, err)
	must(t, engine.Revoke(t.Context(), o.dir, other))

	config.MaxBytes = room
	_, err = js.UpdateStream(t.Context(), config)
	must(t, err)
	x := &chaos{organization: o, all: []*daemon{d}}
	x.waitForAll(t)
	x.verify(t)
}
