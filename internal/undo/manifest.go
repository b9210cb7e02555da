package undo

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"time"

	"github.com/thoughtgate/thoughtgated/internal/beneath"
)

const (
	manifestName     = "manifest"
	manifestTemp     = "manifest.new"
	dataName         = "data"
	maxManifestBytes = 256 << 20
	manifestVersion  = 1
)

// fileName is a name that may have any bytes, in JSON. What can be read is written as it is.
type fileName string

// MarshalText writes the name with the escapes of a Go string.
func (n fileName) MarshalText() ([]byte, error) {
	quoted := strconv.Quote(string(n))
	return []byte(quoted[1 : len(quoted)-1]), nil
}

// UnmarshalText reads what MarshalText wrote.
func (n *fileName) UnmarshalText(text []byte) error {
	plain, err := strconv.Unquote(`"` + string(text) + `"`)
	*n = fileName(plain)
	return err
}

// A manifest says what is in a snapshot.
type manifest struct {
	Version  int        `json:"version"`
	ID       string     `json:"id"`
	Label    string     `json:"label"`
	Root     fileName   `json:"root"`
	Device   uint64     `json:"device"` // of the root
	Inode    uint64     `json:"inode"`
	Names    []fileName `json:"names"`
	Made     time.Time  `json:"made"`
	Contents Contents   `json:"contents"`
	Items    []item     `json:"items"` // a folder before what is in it

	digest string
}

// The kinds of items.
const (
	kindFile   = "file"
	kindFolder = "folder"
	kindLink   = "link"
)

// An item is one file, folder or link.
type item struct {
	Name   fileName  `json:"name"`
	Kind   string    `json:"kind"`
	Mode   uint32    `json:"mode,omitempty"`
	Target fileName  `json:"target,omitempty"` // of a link
	Mtime  time.Time `json:"mtime,omitzero"`
	Size   int64     `json:"size,omitempty"`
	SHA256 string    `json:"sha256,omitempty"`
	// Where the content of a file is: in a file of its own, or in that of all small ones.
	Own string `json:"own,omitempty"`
	At  int64  `json:"at,omitempty"`
}

func (m *manifest) info() Info {
	i := Info{ID: m.ID, Label: m.Label, Root: string(m.Root), Made: m.Made, Digest: m.digest, Contents: m.Contents}
	for _, name := range m.Names {
		i.Names = append(i.Names, string(name))
	}
	return i
}

// write writes the manifest to a snapshot, which exists from then on.
func (m *manifest) write(dir *beneath.Dir, step func(string)) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return err
	}
	m.digest = digestOf(text.Bytes())
	f, err := dir.Create(manifestTemp, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text.Bytes())
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	step("manifest written")
	if err := dir.RenameNew(manifestTemp, manifestName); err != nil {
		return err
	}
	step("manifest renamed")
	return dir.Sync()
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// readManifest reads the manifest of a snapshot. Whoever altered it gains nothing below the root
// but files of the snapshot: each name is checked again.
func readManifest(dir *beneath.Dir) (*manifest, error) {
	f, info, err := dir.Open(manifestName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size > maxManifestBytes {
		return nil, errors.New("the manifest is too large")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxManifestBytes))
	if err != nil {
		return nil, err
	}
	m := &manifest{digest: digestOf(text)}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("the manifest is corrupt: %w", err)
	}
	if m.Version != manifestVersion || m.ID != path.Base(dir.Path()) {
		return nil, errors.New("the manifest is of another version or snapshot")
	}
	folders := map[string]bool{".": true}
	seen := map[fileName]bool{}
	for n := range m.Items {
		i := &m.Items[n]
		name := string(i.Name)
		if !isAllowed(name) || name == "." || seen[i.Name] || !folders[path.Dir(name)] || i.Size < 0 || i.At < 0 || i.Own != "" && !isOwnName(i.Own) {
			return nil, fmt.Errorf("the manifest is corrupt: %q", name)
		}
		seen[i.Name] = true
		switch i.Kind {
		case kindFolder:
			folders[name] = true
		case kindFile, kindLink:
		default:
			return nil, fmt.Errorf("the manifest is corrupt: %q is a %q", name, i.Kind)
		}
	}
	return m, nil
}
