package main

import (
	"bytes"
	"os"
	"path/filepath"
	"text/template"
)

// formula writes a Homebrew formula for the archives, unless a platform's archive is missing.
func (r *release) formula(archives map[platform]string, dir string) error {
	type download struct{ URL, Sum string }
	data := struct {
		Version                                string
		MacArm, MacIntel, LinuxArm, LinuxIntel download
	}{Version: r.archiveVersion()}
	downloads := map[platform]*download{
		{"darwin", "arm64"}: &data.MacArm, {"darwin", "amd64"}: &data.MacIntel,
		{"linux", "arm64"}: &data.LinuxArm, {"linux", "amd64"}: &data.LinuxIntel,
	}
	for p := range downloads {
		if archives[p] == "" {
			return nil
		}
	}
	for p, to := range downloads {
		name := archives[p]
		sum, err := sumOf(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		*to = download{homepage + "/releases/download/v" + data.Version + "/" + name, sum}
	}
	var b bytes.Buffer
	if err := formulaTemplate.Execute(&b, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "thoughtgate.rb"), b.Bytes(), 0o644)
}

var formulaTemplate = template.Must(template.New("formula").Parse(`class Thoughtgate < Formula
  desc "Gate for the tool calls of AI agents"
  homepage "` + homepage + `"
  version "{{.Version}}"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "{{.MacArm.URL}}"
      sha256 "{{.MacArm.Sum}}"
    end
    on_intel do
      url "{{.MacIntel.URL}}"
      sha256 "{{.MacIntel.Sum}}"
    end
  end

  on_linux do
    on_arm do
      url "{{.LinuxArm.URL}}"
      sha256 "{{.LinuxArm.Sum}}"
    end
    on_intel do
      url "{{.LinuxIntel.URL}}"
      sha256 "{{.LinuxIntel.Sum}}"
    end
  end

  def install
    bin.install Dir["bin/*"]
    # tgctl looks for other programs and extensions in ../libexec/thoughtgate.
    (libexec/"thoughtgate").install "libexec/thoughtgate/tg-shim", "libexec/thoughtgate/tg-fleet", "libexec/thoughtgate/extensions"
    man.install Dir["share/man/*"]
    bash_completion.install "share/bash-completion/completions/tgctl"
    zsh_completion.install "share/zsh/site-functions/_tgctl"
    fish_completion.install "share/fish/vendor_completions.d/tgctl.fish"
    doc.install Dir["*.md"], "docs", "THIRD-PARTY-NOTICES"
  end

  service do
    run [opt_bin/"thoughtgated"]
    keep_alive crashed: true
    error_log_path var/"log/thoughtgated.log"
  end

  def caveats
    <<~EOS
      Before it is removed, give agents their own configuration back:
        tgctl unprotect --all && tgctl unwrap --all
    EOS
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tgctl version")
    assert_match "thoughtgate.yaml", shell_output("#{bin}/tgctl policy schema")
  end
end
`))
