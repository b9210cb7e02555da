package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
)

// archive returns a compressed archive of files, in a folder with the archive's name. It does
// not list folders, so that they are created with the user's umask.
func (r *release) archive(name string, files []file) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		header := &tar.Header{
			Name: name + "/" + f.path, Mode: int64(f.mode), Size: int64(len(f.content)), ModTime: r.date,
			Uname: "root", Gname: "root", Format: tar.FormatPAX,
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, fmt.Errorf("%s: %w", f.path, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return zippedTo(b.Bytes(), r.level), nil
}

// sums writes SHA256SUMS of all files in dir, in the format of sha256sum.
func sums(dir string) error {
	entries, err := os.ReadDir(dir) // sorted by name
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), lines.Bytes(), 0o644)
}

func sumOf(path string) (string, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sha256.Sum256(content)), nil
}
