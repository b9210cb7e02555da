package client

import (
	"context"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Protect has the daemon keep what restores the files of a protection. When it returns, that is
// on disk and the files may be written.
func (c *Client) Protect(ctx context.Context, id string, text []byte) error {
	_, err := pb.NewSessionsClient(c.conn).Protect(ctx, &pb.ProtectRequest{Id: id, Text: text})
	return err
}

// Unprotect has the daemon restore the files of a protection and remove it. While a wrapped run
// uses one of the files it fails with [ErrLocked] and changes nothing.
func (c *Client) Unprotect(ctx context.Context, id string) (*pb.UnprotectResponse, error) {
	return pb.NewSessionsClient(c.conn).Unprotect(ctx, &pb.UnprotectRequest{Id: id})
}

// ListProtections returns the protections, oldest first. If whole is set, each includes its
// text, which contains commands and arguments of servers.
func (c *Client) ListProtections(ctx context.Context, whole bool) ([]*pb.Protection, error) {
	out, err := pb.NewSessionsClient(c.conn).ListProtections(ctx, &pb.ListProtectionsRequest{Whole: whole})
	return out.GetProtections(), err
}
