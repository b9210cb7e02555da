package client

import (
	"context"
	"iter"

	pb "github.com/thoughtgate/thoughtgated/proto/thoughtgate/v1"
)

// RestartProcess restarts a program that the daemon runs and returns when it is ready, or with
// the reason why it is not. Errors are [ErrNotFound] if there is no such program, and
// [ErrForbidden] if this caller may not restart it.
func (c *Client) RestartProcess(ctx context.Context, req *pb.RestartProcessRequest) (*pb.RestartProcessResponse, error) {
	return pb.NewProcessesClient(c.conn).Restart(ctx, req)
}

// Logs yields what a program that the daemon runs wrote to its standard error, oldest first.
// With req.Follow it then waits for more, until ctx ends, the loop is left, an error is
// yielded, or there can be no more.
func (c *Client) Logs(ctx context.Context, req *pb.LogsRequest) iter.Seq2[*pb.LogLine, error] {
	return receive(ctx, pb.NewProcessesClient(c.conn).Logs, req)
}

// ListExtensions returns the installed extensions, sorted by name.
func (c *Client) ListExtensions(ctx context.Context) ([]*pb.Extension, error) {
	out, err := pb.NewExtensionsClient(c.conn).List(ctx, &pb.ListExtensionsRequest{})
	return out.GetExtensions(), err
}

// GetExtension returns one extension, or [ErrNotFound].
func (c *Client) GetExtension(ctx context.Context, name string) (*pb.Extension, error) {
	return pb.NewExtensionsClient(c.conn).Get(ctx, &pb.GetExtensionRequest{Name: name})
}

// LookExtension returns what the folder dir, an absolute path, would install. If its manifest
// is invalid, the error's Diagnostics say why.
func (c *Client) LookExtension(ctx context.Context, dir string) (*pb.LookExtensionResponse, error) {
	return pb.NewExtensionsClient(c.conn).Look(ctx, &pb.LookExtensionRequest{Dir: dir})
}

// InstallExtension installs what LookExtension has shown. Errors are [ErrChanged] if the folder
// has changed since, and [ErrForbidden] if this caller may not install it.
func (c *Client) InstallExtension(ctx context.Context, req *pb.InstallExtensionRequest) (*pb.Extension, error) {
	return pb.NewExtensionsClient(c.conn).Install(ctx, req)
}

// RemoveExtension stops and removes an extension and returns what remains of it. Errors are
// [ErrNotFound] and [ErrForbidden].
func (c *Client) RemoveExtension(ctx context.Context, req *pb.RemoveExtensionRequest) (*pb.RemoveExtensionResponse, error) {
	return pb.NewExtensionsClient(c.conn).Remove(ctx, req)
}

// Invoke runs a command of an extension and yields its output; the last event is its end. When
// ctx ends or the loop is left, the command is cancelled.
func (c *Client) Invoke(ctx context.Context, req *pb.InvokeRequest) iter.Seq2[*pb.InvokeEvent, error] {
	return receive(ctx, pb.NewExtensionsClient(c.conn).Invoke, req)
}

// ExtensionConfig returns the configuration of an extension, sorted by key.
func (c *Client) ExtensionConfig(ctx context.Context, name string) ([]*pb.ExtensionValue, error) {
	out, err := pb.NewExtensionsClient(c.conn).GetConfig(ctx, &pb.GetExtensionConfigRequest{Name: name})
	return out.GetValues(), err
}

// SetExtensionConfig sets one value and returns the resulting configuration. Errors are
// [ErrInvalid] for an invalid key or value, and [ErrForbidden] if this caller may not set it.
func (c *Client) SetExtensionConfig(ctx context.Context, req *pb.SetExtensionConfigRequest) ([]*pb.ExtensionValue, error) {
	out, err := pb.NewExtensionsClient(c.conn).SetConfig(ctx, req)
	return out.GetValues(), err
}
