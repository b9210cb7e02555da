package corpus

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	home    = "/home/user"
	project = home + "/project"
)

// system are files outside of the work tree that commands commonly name. What ends in a slash is an
// empty folder.
const system = `
	/bin/sh /sbin/init /boot/vmlinuz /lib/libc.so /usr/bin/env /usr/lib/libm.so /usr/local/bin/tool /usr/share/doc/readme /opt/app/app /srv/www/index.html /data/db
	/etc/passwd /etc/shadow /etc/group /etc/hosts /etc/fstab /etc/sudoers /etc/hostname /etc/resolv.conf /etc/crontab /etc/profile /etc/ssh/sshd_config /etc/nginx/nginx.conf
	/etc/environment /etc/bash.bashrc /etc/services /etc/apt/sources.list /etc/ssl/private/key.pem /etc/cron.d/job
	/var/log/syslog /var/log/auth.log /var/log/messages /var/lib/db /var/www/html/index.html /var/data/file /important/data/file /mnt/disk/file
	/app/main.py /app/data.txt /app/environment.yml /app/config.json /app/logs/app.log
	/root/.bashrc /root/.profile /root/.ssh/authorized_keys /root/.ssh/id_rsa /root/notes.txt /tmp/ /var/tmp/ /dev/ /proc/ /run/ /media/
`

// ofUser are files in the home folder.
const ofUser = `
	.bashrc .profile .bash_history .ssh/id_rsa .ssh/config .ssh/authorized_keys .aws/credentials .netrc .config/app/settings.json .config/thoughtgate/thoughtgate.yaml
	.env .cache/x Documents/letter.txt documents/letter.txt Downloads/a.zip Desktop/todo.txt important/a.txt data/a.csv work/a.txt projects/a/main.go backup/a.tar notes.txt file.txt
`

// Files of the work tree: committed ones, of which some have changes; ones in no commit; and
// ignored ones.
const (
	committed = `
		README.md LICENSE Makefile main.go file.txt go.mod go.sum package.json Cargo.toml setup.py config.yml config.json index.html style.css app.js docker-compose.yml Dockerfile
		src/main.rs src/lib.rs src/index.js src/app.py src/main.c lib/util.js lib/util.py docs/index.md docs/guide.md tests/test_app.py test/a.txt test.sh script.sh run.sh file1.txt file2.txt
		a.txt b.txt foo.txt bar.txt file file1 file2 foo bar a b c input.txt data.csv images/a.png scripts/deploy.sh include/a.h`
	changed   = `README.md src/main.rs test.txt src/app.py config.yml`
	untracked = `notes.txt scratch.txt important.txt data.txt temp.txt test_output.txt mydir/a.txt dir/a.txt folder/b.txt old/c.txt data/a.csv backup/d.tar tmp/e.txt untracked/f.go`
	ignored   = `node_modules/x/index.js build/out dist/app.js target/debug/app __pycache__/a.pyc .venv/bin/python app.log server.log main.o`
	gitignore = "node_modules/\nbuild/\ndist/\ntarget/\n__pycache__/\n.venv/\n*.log\n*.o\n*.pyc\n"
)

// makeWorld makes a file system with a home folder and a work tree. Its main branch and that of its
// remote have commits that the other has not; spare is a branch with a commit of its own; and there
// is a stash.
func makeWorld(t *testing.T, root string) {
	t.Helper()
	put := func(top, names, text string) {
		for name := range strings.FieldsSeq(names) {
			at := filepath.Join(root, top, name)
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			if strings.HasSuffix(name, "/") {
				err = os.MkdirAll(at, 0o755)
			} else if err == nil {
				err = os.WriteFile(at, []byte(text+name+"\n"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = filepath.Join(root, project)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=gc.auto", "GIT_CONFIG_VALUE_0=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	commit := func(name string) {
		put(project, name, "")
		git("add", "-A")
		git("commit", "-q", "-m", name)
	}
	put("", system, "")
	put(home, ofUser, "")
	put(project, committed+" "+changed, "")
	if err := os.WriteFile(filepath.Join(root, project, ".gitignore"), []byte(gitignore), 0o600); err != nil {
		t.Fatal(err)
	}
	git("init", "-q", "--bare", "-b", "main", "../remote")
	git("init", "-q", "-b", "main")
	git("remote", "add", "origin", "../remote")
	commit("first")
	commit("theirs")
	git("push", "-q", "-u", "origin", "main")
	git("reset", "-q", "--hard", "HEAD~1")
	for _, branch := range []string{"spare", "feature", "feature/one", "feature-branch", "old-branch", "my-branch"} {
		git("checkout", "-q", "-b", strings.ReplaceAll(branch, "feature/", "topic/"))
		commit("of-" + strings.ReplaceAll(branch, "/", "-"))
		git("checkout", "-q", "main")
	}
	commit("ours")
	put(project, changed, "stashed ")
	git("stash", "-q")
	put(project, changed, "changed ")
	put(project, untracked+" "+ignored, "")
}
