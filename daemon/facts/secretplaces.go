package facts

// This file lists places where credentials are kept, all in lower case. What decides whether a
// text names one is placeOf, in places.go.

// placeKeywords are substrings of the names of places where credentials may be kept. placeOf is asked
// only about a text that contains one of them, so each entry of the lists below needs one.
var placeKeywords = []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", "gcloud", ".env", "netrc", ".npmrc", ".pypirc", ".pgpass",
	".my.cnf", ".git-credentials", ".htpasswd", ".s3cfg", ".boto", ".dockercfg", ".password-store", "keyring", "keychain", "id_rsa", "id_dsa",
	"id_ecdsa", "id_ed25519", ".pem", ".p12", ".pfx", ".jks", ".keystore", ".kdb", ".ppk", ".key", "shadow", "sudoers", "master.passwd",
	"ssl/private", "/proc", "run/secrets", "serviceaccount", "credential", "client_secret", "service-account", "service_account", "secrets.",
	"login data", "cookies", "key4.db", "key3.db", "logins.json", "wallet.dat", ".vault-token", ".terraform.d", "hosts.yml", "rclone.conf",
	".1password", ".bitcoin", ".electrum", "ethereum/keystore", "auth.json", "vault://", "op://", "keychain://", "secret://", "secrets://", "169.254.169.254",
	"metadata.google.internal", ".envrc", "kubernetes",
	// Histories, and files of programs that hold tokens.
	"history", ".histfile", ".dbshell", ".gitconfig", "git", ".claude", "claude_desktop", "oauth_creds", "mcp_config", ".cursor", "goose", "copilot", "huggingface", "google_accounts",
	".aider", ".continue", "databrickscfg", "snow", ".dbt", ".oci", ".aliyun", "doctl", "glab-cli", "hub", ".fly", ".netlify", ".vercel", "ngrok", "stripe", ".wrangler",
	".supabase", ".mc", "passwd-s3fs", "smbcredentials", "wireguard", "system-connections", "sitemanager", "filezilla", ".bundle", ".m2", "gradle.properties", "nuget.config",
	"auth.toml", "tomcat-users",
	// Keys, state and settings.
	"age", "keystore", ".bks", ".bcfks", ".jceks", ".p8", ".pvk", "keytab", ".ovpn", "secring", "key.properties", "kubeconfig", "k3s.yaml", "tfstate", "tfvars", "terraformrc",
	"terraform.rc", "database.yml", "wp-config", "secret", "appsettings.", "local_settings", ".flaskenv", ".dev.vars", "adminsdk",
	".kiro", "amp/settings", "devin/config"}

var secretFolders = set(".ssh", ".aws", ".gnupg", ".kube", ".azure", ".password-store", ".1password", ".bitcoin", ".electrum", "keyrings", "keychains",
	".aliyun", ".oci", ".snowflake", ".supabase", ".wrangler", ".netlify", ".vercel", ".ngrok2", ".stripe", ".fly", "wireguard")

var secretPaths = []string{"/etc/shadow/", "/etc/shadow-/", "/etc/gshadow/", "/etc/sudoers", "/etc/master.passwd/", "/etc/ssl/private/", "/run/secrets/",
	"/kubernetes.io/serviceaccount/", "/.config/gcloud/", "/ethereum/keystore/", "/.docker/config.json/", "/.config/gh/hosts.yml/",
	"/.cargo/credentials", "/.gem/credentials", "/.composer/auth.json/", "/microsoft/credentials/",
	"/.terraform.d/credentials", "/.local/share/opencode/auth.json/", "/.codex/auth.json/", "/.claude/.credentials.json/",
	"/.config/git/config/", "/.config/git/credentials/", "/.cursor/mcp.json/", "/.kiro/settings/mcp.json/", "/.config/amp/settings.json", "/.config/devin/config.json/", "/.config/goose/", "/.config/github-copilot/", "/.copilot/config.json/", "/huggingface/token/",
	"/.continue/config.", "/.dbt/profiles.yml/", "/doctl/config.yaml/", "/glab-cli/config.yml/", "/.config/hub/", "/ngrok/ngrok.yml/", "/.config/stripe/", "/.mc/config.json/",
	"/networkmanager/system-connections/", "/.bundle/config/", "/.m2/settings", "/pypoetry/auth.toml/", "/sops/age/", "/.config/age/", "/etc/kubernetes/",
	"/etc/rancher/k3s/k3s.yaml/", "/config/credentials/", "/fish/fish_history/", "/pgcli/history/", "/litecli/history/"}

var secretFiles = set(".netrc", "_netrc", ".npmrc", ".pypirc", ".pgpass", ".my.cnf", ".git-credentials", ".htpasswd", ".s3cfg", ".boto", ".dockercfg",
	".vault-token", ".envrc", "key4.db", "key3.db", "logins.json", "wallet.dat", "login data", "cookies.sqlite", "rclone.conf",
	"credentials.json", "credentials.yml", "credentials.yaml", "credentials.toml", "credentials.ini", "credentials.xml", "credentials.csv", ".credentials",
	"application_default_credentials.json", "secrets.yml", "secrets.yaml", "secrets.json", "secrets.toml", "secrets.env", "secrets.ini",
	"client_secret.json", "client_secrets.json", "service-account.json", "service_account.json", "serviceaccount.json", "serviceaccountkey.json",
	".history", ".zhistory", ".histfile", "fish_history", "consolehost_history.txt", ".rhistory", ".dbshell", ".gitconfig",
	".claude.json", "claude_desktop_config.json", "oauth_creds.json", "mcp_config.json", "google_accounts.json", ".aider.conf.yml", ".databrickscfg", ".snowsql",
	".passwd-s3fs", ".smbcredentials", "sitemanager.xml", "filezilla.xml", "gradle.properties", "nuget.config", "tomcat-users.xml",
	"age.key", "age-key.txt", "agekey.txt", ".age-key", "secring.gpg", "keystore", "keystore.properties", "key.properties", ".terraformrc", "terraform.rc",
	"master.key", "credentials.yml.enc", "secrets.yml.enc", "database.yml", "wp-config.php", "prod.secret.exs", "appsettings.production.json", "local_settings.py",
	"secret_token.rb", "secret.key", ".secrets", ".secrets.toml", ".secrets.yaml", ".flaskenv", ".dev.vars", "secrets.properties")

var keyFolders = set("ssl", "tls", "certs", "cert", "private", "pki", "keys", "secrets")
var keyNames = set("server", "private", "privkey", "client", "ssl", "tls", "key", "ca", "signing", "tls-key", "master",
	"age", "jwt", "secret", "private_key", "private-key", "oauth-private")
var publicKeys = []string{"cacert", "ca-cert", "ca-bundle", "ca_bundle", "fullchain", "chain.pem", "public", "pubkey", "root-ca"}

// secretEnds are extensions of files that hold keys, or data that was made with them.
var secretEnds = set(".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".bks", ".bcfks", ".jceks", ".kdb", ".p8", ".pvk", ".keytab", ".ovpn",
	".agekey", ".kubeconfig", ".tfstate", ".tfvars")

// spares are suffixes of the names of backup copies.
var spares = []string{".bak", ".backup", ".old", ".orig", ".save", ".saved", ".swp", ".swo", ".tmp", ".copy", ".prev", ".gz", ".zip", ".tar", ".tgz", ".bz2", ".xz",
	".zst", "~", "-bak", "_bak", "-backup", "_backup", "-old", "_old", "-copy", "_copy", " copy"}

// envNames are base names of .env files that hold settings; in programs, x.env is a variable.
var envNames = set("prod", "production", "dev", "development", "local", "staging", "stage", "secrets", "app", "docker", "db", "config", "*", "**")

var publicEnv = set("example", "sample", "template", "dist", "defaults", "schema", "tmpl", "tpl", "md")
