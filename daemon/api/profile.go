package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"google.golang.org/grpc"

	"github.com/thoughtgate/thoughtgated/daemon/gate"
	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// longestProfile is for how long the daemon looks at itself, whoever forgets to say
// that it is enough.
const longestProfile = 10 * time.Minute

// profileKinds are the profiles that can be asked for. Of cpu, mutex and block
// something is seen only from the request on.
var profileKinds = []string{"cpu", "heap", "allocs", "goroutine", "mutex", "block"}

func (v daemonService) Profile(stream grpc.BidiStreamingServer[pb.ProfileRequest, pb.ProfileChunk]) error {
	ctx, by, err := v.s.decider(stream.Context(), "a profile of the daemon")
	if err != nil {
		return err
	}
	req, err := stream.Recv()
	if err != nil {
		return err
	}
	kind := req.GetKind()
	if !slices.Contains(profileKinds, kind) {
		return toStatus(fmt.Errorf("there is no profile %q: %w", kind, gate.ErrInvalid))
	}
	v.s.Logger.Info("profiles itself", "kind", kind, "by", by)
	if err := stream.Send(&pb.ProfileChunk{}); err != nil { // it has begun
		return err
	}
	enough := func() error {
		ctx, cancel := context.WithTimeout(ctx, longestProfile)
		defer cancel()
		ended := make(chan error, 1)
		go func() { // ends with the stream
			_, err := stream.Recv()
			ended <- err
		}()
		select {
		case err := <-ended:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case <-ctx.Done():
			return stream.Context().Err() // nil when it was only long
		}
	}
	var out bytes.Buffer
	if err := profile(kind, &out, enough); err != nil {
		return toStatus(err)
	}
	for chunk := range slices.Chunk(out.Bytes(), 64<<10) {
		if err := stream.Send(&pb.ProfileChunk{Data: chunk}); err != nil {
			return err
		}
	}
	return nil
}

// profile writes a profile that is over when enough returns.
func profile(kind string, w io.Writer, enough func() error) error {
	switch kind {
	case "cpu":
		if err := pprof.StartCPUProfile(w); err != nil {
			return fmt.Errorf("one is being taken already: %w", gate.ErrInvalid)
		}
		defer pprof.StopCPUProfile()
		return enough()
	case "mutex":
		defer runtime.SetMutexProfileFraction(runtime.SetMutexProfileFraction(10))
	case "block":
		runtime.SetBlockProfileRate(int(10 * time.Microsecond))
		defer runtime.SetBlockProfileRate(0)
	case "heap":
		runtime.GC() // what is held, not what is not collected yet
	}
	if kind == "mutex" || kind == "block" {
		if err := enough(); err != nil {
			return err
		}
	}
	return pprof.Lookup(kind).WriteTo(w, 0)
}
