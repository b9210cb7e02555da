// Protogen compiles the .proto files below a folder and writes the generated Go code beside
// each, with the plugins that this module pins. It replaces protoc, which a Go toolchain can't
// install. With -check it writes nothing and fails if the files differ from what it would
// write.
//
// Usage:
//
//	go -C tools run ./protogen [-check] ROOT
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	check := flag.Bool("check", false, "write nothing; fail when the generated code is stale")
	flag.Usage = func() { fmt.Fprintln(os.Stderr, "usage: protogen [-check] ROOT") }
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	root := flag.Arg(0)
	generated, err := generateAll(context.Background(), root)
	if err == nil {
		if *check {
			err = compare(root, generated)
		} else {
			err = write(root, generated)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// write writes each generated file, named relative to root.
func write(root string, generated map[string]string) error {
	for name, content := range generated {
		if err := os.WriteFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compare returns an error unless the generated files below root are exactly those of
// generated: none missing, none different, none left over from a removed .proto file.
func compare(root string, generated map[string]string) error {
	stale := []string{}
	for name, content := range generated {
		if have, err := os.ReadFile(filepath.Join(root, name)); err != nil || string(have) != content {
			stale = append(stale, name)
		}
	}
	there, err := filesBelow(root, ".pb.go")
	if err != nil {
		return err
	}
	for _, name := range there {
		if _, ok := generated[name]; !ok {
			stale = append(stale, name)
		}
	}
	if len(stale) > 0 {
		slices.Sort(stale)
		return fmt.Errorf("stale below %s: %s; run `make generate`", root, strings.Join(stale, ", "))
	}
	return nil
}

// filesBelow returns the files below root that end in suffix, relative to root, with slashes,
// sorted.
func filesBelow(root, suffix string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, suffix) {
			name, _ := filepath.Rel(root, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	slices.Sort(names)
	return names, err
}

// generateAll compiles every .proto file below root and returns the files that the plugins
// generate, by name relative to root.
func generateAll(ctx context.Context, root string) (map[string]string, error) {
	names, err := filesBelow(root, ".proto")
	if err != nil {
		return nil, err
	}
	compiler := protocompile.Compiler{
		Resolver:       protocompile.WithStandardImports(&protocompile.SourceResolver{ImportPaths: []string{root}}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(ctx, names...)
	if err != nil {
		return nil, err
	}
	request := &pluginpb.CodeGeneratorRequest{FileToGenerate: names}
	seen := map[string]bool{}
	for _, f := range files {
		addWithImports(request, f, seen)
	}
	request.Parameter = proto.String("paths=source_relative")
	generated := map[string]string{}
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(ctx, plugin, request, generated); err != nil {
			return nil, fmt.Errorf("%s: %w", plugin, err)
		}
	}
	return generated, nil
}

// addWithImports adds f to the request, after its imports, as plugins expect.
func addWithImports(request *pluginpb.CodeGeneratorRequest, f protoreflect.FileDescriptor, seen map[string]bool) {
	if seen[f.Path()] {
		return
	}
	seen[f.Path()] = true
	for i := range f.Imports().Len() {
		addWithImports(request, f.Imports().Get(i).FileDescriptor, seen)
	}
	request.ProtoFile = append(request.ProtoFile, protoutil.ProtoFromFileDescriptor(f))
}

// generate runs one plugin and adds its files to generated.
func generate(ctx context.Context, plugin string, request *pluginpb.CodeGeneratorRequest, generated map[string]string) error {
	in, err := proto.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "tool", plugin)
	cmd.Stdin = bytes.NewReader(in)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	var response pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(out, &response); err != nil {
		return err
	}
	if response.Error != nil {
		return fmt.Errorf("%s", response.GetError())
	}
	for _, f := range response.File {
		generated[f.GetName()] = f.GetContent()
	}
	return nil
}
