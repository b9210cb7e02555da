package soak

import (
	"fmt"
	"os"
)

// What a plant may leak.
const (
	plantDescriptors = "descriptors"
	plantMemory      = "memory"
)

// plant is a leak in this process, to see that it is found: -plant of the soak, and
// a test. The zero value has leaked nothing.
type plant struct {
	files  []*os.File
	memory [][]byte
}

// grow leaks one descriptor or 64 KiB; kind is empty for nothing.
func (p *plant) grow(kind string) error {
	switch kind {
	case "":
	case plantDescriptors:
		f, err := os.Open(os.DevNull)
		if err != nil {
			return err
		}
		p.files = append(p.files, f)
	case plantMemory:
		page := make([]byte, 64<<10)
		for i := range page {
			page[i] = byte(i)
		}
		p.memory = append(p.memory, page)
	default:
		return fmt.Errorf("nothing called %q can leak; say %s or %s", kind, plantDescriptors, plantMemory)
	}
	return nil
}

// uproot gives back what was leaked.
func (p *plant) uproot() {
	for _, f := range p.files {
		f.Close()
	}
	*p = plant{}
}
