// Package beside finds the other programs of an installation, all of which are installed together:
// to start them now, or by a path that lasts, for files in which others read it.
package beside

import (
	"fmt"
	"os"
	"path/filepath"
)

// Find returns the path of the program called name that was installed with the program at self:
// in the same folder, or in libexec/thoughtgate, where packages put programs that users do not
// run themselves. If self is a link, Find also searches next to its target.
func Find(self, name string) (string, error) {
	dirs := []string{filepath.Dir(self)}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		dirs = append(dirs, filepath.Dir(real))
	}
	for _, dir := range dirs {
		for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, "..", "libexec", "thoughtgate", name)} {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("there is no %s beside %s", name, self)
}
