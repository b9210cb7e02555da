package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RestartProcess ends a program that the daemon keeps and starts it anew; the
// answer comes when it can be talked to, or says why it can't. [ErrNotFound] says
// that none of that kind and name is kept, [ErrForbidden] that this caller may not.
func (c *Client) RestartProcess(ctx context.Context, req *pb.RestartProcessRequest) (*pb.RestartProcessResponse, error) {
	return pb.NewProcessesClient(c.conn).Restart(ctx, req)
}

// Logs yields what a program that the daemon keeps wrote to its standard error,
// oldest first. With req.Follow it then waits for more, until ctx ends, the loop is
// left, an error was yielded, or there can be no more.
func (c *Client) Logs(ctx context.Context, req *pb.LogsRequest) iter.Seq2[*pb.LogLine, error] {
	return receive(ctx, pb.NewProcessesClient(c.conn).Logs, req)
}

// ListExtensions returns the extensions that are installed, by name.
func (c *Client) ListExtensions(ctx context.Context) ([]*pb.Extension, error) {
	out, err := pb.NewExtensionsClient(c.conn).List(ctx, &pb.ListExtensionsRequest{})
	return out.GetExtensions(), err
}

// GetExtension returns one of them, [ErrNotFound] when none has that name.
func (c *Client) GetExtension(ctx context.Context, name string) (*pb.Extension, error) {
	return pb.NewExtensionsClient(c.conn).Get(ctx, &pb.GetExtensionRequest{Name: name})
}

// LookExtension says what the folder dir, an absolute path, would install. When its
// manifest is not valid the error's Diagnostics say what is wrong with it.
func (c *Client) LookExtension(ctx context.Context, dir string) (*pb.LookExtensionResponse, error) {
	return pb.NewExtensionsClient(c.conn).Look(ctx, &pb.LookExtensionRequest{Dir: dir})
}

// InstallExtension installs what LookExtension has shown: [ErrChanged] says that
// the folder holds something else by now, [ErrForbidden] that this caller may not.
func (c *Client) InstallExtension(ctx context.Context, req *pb.InstallExtensionRequest) (*pb.Extension, error) {
	return pb.NewExtensionsClient(c.conn).Install(ctx, req)
}

// RemoveExtension stops an extension and takes it away, and returns what stays.
// [ErrNotFound] and [ErrForbidden] are as elsewhere.
func (c *Client) RemoveExtension(ctx context.Context, req *pb.RemoveExtensionRequest) (*pb.RemoveExtensionResponse, error) {
	return pb.NewExtensionsClient(c.conn).Remove(ctx, req)
}

// Invoke runs a command of an extension and yields what it says; the last event
// is its end. When ctx ends or the loop is left, the command is cancelled.
func (c *Client) Invoke(ctx context.Context, req *pb.InvokeRequest) iter.Seq2[*pb.InvokeEvent, error] {
	return receive(ctx, pb.NewExtensionsClient(c.conn).Invoke, req)
}

// ExtensionConfig returns the configuration of an extension, by key.
func (c *Client) ExtensionConfig(ctx context.Context, name string) ([]*pb.ExtensionValue, error) {
	out, err := pb.NewExtensionsClient(c.conn).GetConfig(ctx, &pb.GetExtensionConfigRequest{Name: name})
	return out.GetValues(), err
}

// SetExtensionConfig sets one value, and returns all of them as they are then.
// [ErrInvalid] says that it can't be one, [ErrForbidden] that this caller may not.
func (c *Client) SetExtensionConfig(ctx context.Context, req *pb.SetExtensionConfigRequest) ([]*pb.ExtensionValue, error) {
	out, err := pb.NewExtensionsClient(c.conn).SetConfig(ctx, req)
	return out.GetValues(), err
}
