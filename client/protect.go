package client

import (
	"context"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// Protect has the daemon keep what undoes a rewrite that lasts. When it returns
// that is on disk, and the files may be written.
func (c *Client) Protect(ctx context.Context, id string, text []byte) error {
	_, err := pb.NewSessionsClient(c.conn).Protect(ctx, &pb.ProtectRequest{Id: id, Text: text})
	return err
}

// Unprotect has the daemon put the files of a protection back and forget it. It
// fails with [ErrLocked], and nothing has changed, while a wrap has one of them.
func (c *Client) Unprotect(ctx context.Context, id string) (*pb.UnprotectResponse, error) {
	return pb.NewSessionsClient(c.conn).Unprotect(ctx, &pb.UnprotectRequest{Id: id})
}

// ListProtections returns the rewrites that last, oldest first; with whole, each
// with its text, which holds commands and arguments of servers.
func (c *Client) ListProtections(ctx context.Context, whole bool) ([]*pb.Protection, error) {
	out, err := pb.NewSessionsClient(c.conn).ListProtections(ctx, &pb.ListProtectionsRequest{Whole: whole})
	return out.GetProtections(), err
}
