package effects

import (
	"strings"

	"github.com/thoughtgate/thoughtgated/internal/shell"
)

var gitPrograms = map[string]*program{
	"git": {
		flags: gitGlobals() + " exec-path? paginate,p no-pager,P bare no-replace-objects literal-pathspecs icase-pathspecs version,v help,h",
		subs: map[string]*program{
			"push": {
				flags: "f,force force-with-lease? force-if-includes mirror d,delete prune all tags follow-tags o,push-option= repo= receive-pack= exec= n,dry-run u,set-upstream q,quiet v,verbose no-verify atomic signed? thin recurse-submodules=",
				deeds: []rule{{GitForcePush, "-f|-mirror|-d|-prune !-n"}, {GitForcePush, "@+*|@:?* !-n"}, {GitForcePush, "-setting=remote.*.mirror*|-setting=remote.*.push=+* !-n"}},
				also:  (*call).gitRemote,
			},
			"send-pack":      {flags: "f,force mirror all n,dry-run receive-pack= exec=", deeds: []rule{{GitForcePush, "-f|-mirror !-n"}, {GitForcePush, "@+*|@:?* !-n"}}, also: (*call).gitRemote},
			"reset":          {flags: "hard soft mixed merge keep q,quiet p,patch N pathspec-from-file=R", deeds: []rule{{GitDiscard, "-hard|-merge|-keep"}}},
			"checkout":       {flags: "b= B= orphan= f,force p,patch ours theirs m,merge conflict= t,track? d,detach q,quiet l no-overlay overlay pathspec-from-file=R recurse-submodules?", also: (*call).gitCheckout},
			"switch":         {flags: "f,force discard-changes c,create= C,force-create= d,detach orphan= m,merge conflict= t,track? q,quiet recurse-submodules?", deeds: []rule{{GitDiscard, "-f|-discard-changes|-C"}}},
			"restore":        {flags: "S,staged W,worktree s,source= p,patch q,quiet m,merge ours theirs conflict= pathspec-from-file=R recurse-submodules?", also: (*call).gitRestore},
			"clean":          {flags: "f,force d x X n,dry-run e,exclude= i,interactive q,quiet", deeds: []rule{{GitDiscard, "!-n"}}}, // -f is needed only by default
			"stash":          {subs: map[string]*program{"drop": discards, "clear": discards}},
			"branch":         {flags: "D d,delete f,force m,move M c,copy C a,all r,remotes l,list v u,set-upstream-to= contains? no-contains? merged? no-merged? sort= format= points-at= show-current t,track? edit-description unset-upstream color? column?", deeds: []rule{{GitDiscard, "-D|-M|-C|-f"}}},
			"tag":            {flags: "a,annotate s,sign u,local-user= f,force d,delete v,verify n? l,list sort= contains? no-contains? merged? no-merged? points-at= m,message= F,file=R e,edit cleanup= format= color? column? i,ignore-case create-reflog", deeds: []rule{{GitDiscard, "-d|-f"}}},
			"reflog":         {subs: map[string]*program{"expire": discards, "delete": discards}},
			"gc":             {flags: "prune? aggressive auto quiet force", deeds: []rule{{GitDiscard, "-prune=* !-prune=*week*|-prune=*month*|-prune=*year*|-prune=never"}, {GitDiscard, "-setting=gc.*pruneexpire=*"}}},
			"prune":          {flags: "n,dry-run v expire=", deeds: []rule{{GitDiscard, "!-n"}}},
			"filter-branch":  {flags: "f,force tree-filter= index-filter= msg-filter= env-filter= commit-filter= d=", deeds: []rule{{GitDiscard, ""}}},
			"filter-repo":    {deeds: []rule{{GitDiscard, "!-dry-run !-analyze"}}},
			"fast-import":    {flags: "force quiet", deeds: []rule{{GitDiscard, "-force"}}},
			"symbolic-ref":   {flags: "d,delete q,quiet short no-recurse m=", deeds: []rule{{GitDiscard, "-d|#>1"}}},
			"update-ref":     {flags: "d m= stdin z no-deref create-reflog", deeds: []rule{{GitDiscard, "-d|-stdin|#>1"}}},
			"read-tree":      {flags: "reset m u", deeds: []rule{{GitDiscard, "-reset -u"}}},
			"checkout-index": {flags: "f,force a,all u", deeds: []rule{{GitDiscard, "-f"}}},
			"worktree":       {subs: map[string]*program{"remove": {flags: "f,force", deeds: []rule{{GitDiscard, "-f"}}}, "add": {flags: "f,force b= B= d,detach lock reason= orphan q,quiet track guess-remote", deeds: []rule{{GitDiscard, "-B"}}}}},
			"submodule":      {flags: "q,quiet", subs: map[string]*program{"deinit": {flags: "f,force all q,quiet", deeds: []rule{{GitDiscard, "-f"}}}}},
			"rm":             {flags: "r f,force cached q,quiet n,dry-run ignore-unmatch sparse pathspec-from-file=R", deeds: []rule{{GitDiscard, "-f !-cached !-n"}}, also: (*call).gitRm},
			"mv":             {flags: "f,force k n,dry-run v", also: (*call).moves},
			"clone":          {flags: "b,branch= o,origin= depth= reference= j,jobs= c,config= template= u,upload-pack= separate-git-dir=W shallow-since= filter= single-branch recurse-submodules? bare mirror q", words: "H W"},
			"fetch":          {flags: gitFetchFlags, also: (*call).gitFetch},
			"pull":           {flags: gitFetchFlags + " s,strategy= X,strategy-option= r,rebase? no-rebase ff no-ff ff-only autostash no-commit edit e", also: (*call).gitFetch},
			"ls-remote":      {flags: "h t q o= upload-pack= exec= sort=", also: (*call).gitRemote},
			"config":         {flags: "global system local f,file= blob= unset get add list l e,edit get-all get-regexp get-urlmatch= unset-all replace-all type= default= remove-section rename-section worktree null z show-origin show-scope name-only includes bool int path comment= value= fixed-value all append", also: (*call).gitConfig},
			"apply":          {flags: "p= C= directory= exclude= include= whitespace= check stat R cached index 3", words: "R...", also: (*call).gitApply},
			"commit":         {flags: "F,file=R t,template=R m,message= C,reuse-message= c,reedit-message= author= date= fixup= squash= cleanup= trailer= pathspec-from-file=R S? u? a,all p,patch q v s e"},
			"diff":           {flags: "output=W no-index S= G= O=R l= U= I=", also: (*call).gitDiff},
			"log":            {flags: "output=W"},
			"show":           {flags: "output=W"},
			"format-patch":   {flags: "o,output-directory=W output=W signature-file=R"},
			"bundle":         {subs: map[string]*program{"create": {words: "W _..."}}},
			"blame":          {flags: "contents=R S=R L="},
			"hash-object":    {flags: "t= w stdin path=", words: "R..."},
			"add":            {flags: "A p u f n v chmod= pathspec-from-file=R"},
			"archive":        {flags: "o,output=W format= prefix= remote= exec= add-file=R"},
			"lfs":            {subs: map[string]*program{"prune": discards}},
		},
	},
	"hg":  {subs: map[string]*program{"update": {flags: "C,clean r,rev= c", deeds: []rule{{GitDiscard, "-C"}}}, "purge": discards, "revert": {flags: "a,all r,rev= C,no-backup n,dry-run", deeds: []rule{{GitDiscard, "-C"}}}, "strip": discards}},
	"svn": {subs: map[string]*program{"revert": {flags: "R,recursive depth=", deeds: []rule{{GitDiscard, "-R"}}}, "cleanup": {flags: "remove-unversioned remove-ignored", deeds: []rule{{GitDiscard, "-remove-unversioned|-remove-ignored"}}}}},
	"jj":  {subs: map[string]*program{"abandon": discards}},
	"gh": {
		flags: "R,repo=",
		subs: map[string]*program{
			"issue":     {subs: map[string]*program{"create": postsBody, "comment": postsBody, "edit": postsBody}},
			"pr":        {subs: map[string]*program{"create": postsBody, "comment": postsBody, "edit": postsBody, "review": postsBody}},
			"repo":      {subs: map[string]*program{"delete": destroys, "archive": destroys}},
			"release":   {subs: map[string]*program{"delete": destroys, "create": publishes, "upload": {flags: "clobber R,repo=", words: "_ U...", deeds: []rule{{PackagePublish, ""}}}}},
			"api":       {flags: "X,method= f,raw-field= F,field= H,header= input=U q,jq= t,template= hostname= p,preview= cache=", deeds: []rule{{Infrastructure, "-X=delete"}}, also: (*call).curl},
			"gist":      {subs: map[string]*program{"create": {flags: "d,desc= f,filename= p,public w", also: (*call).uploadsWords}, "delete": destroys}},
			"secret":    {subs: map[string]*program{"delete": destroys, "set": {flags: "b,body= f,env-file=U R,repo= e= o= u", also: (*call).mails}}},
			"codespace": {subs: map[string]*program{"delete": destroys}},
		},
	},
	"glab": {subs: map[string]*program{"repo": {subs: map[string]*program{"delete": destroys}}}},
}

// gitGlobals returns the flags with a value before git's command, in the form of the tables. Two have
// names here by which rules know them.
func gitGlobals() string {
	var flags []string
	for name := range strings.FieldsSeq(shell.GlobalFlags("git")) {
		if named := map[string]string{"C": "directory,C", "c": "setting,c"}[name]; named != "" {
			name = named
		}
		flags = append(flags, name+"=")
	}
	return strings.Join(flags, " ")
}

const gitFetchFlags = "depth= deepen= shallow-since= shallow-exclude= j,jobs= o,server-option= upload-pack= refmap= negotiation-tip= recurse-submodules? filter= a,append all p,prune t,tags n,no-tags f,force k u,update-head-ok q,quiet v,verbose multiple unshallow dry-run"

// postsBody publishes a text.
var postsBody = &program{flags: "F,body-file=U b,body= t,title= l,label= a,assignee= R,repo= B,base= H,head=", also: (*call).posts}

var (
	discards  = &program{flags: "n,dry-run", deeds: []rule{{GitDiscard, "!-n"}}}
	destroys  = &program{flags: "dry-run dryrun help,h", deeds: []rule{{Infrastructure, "!-dry-run !-dryrun !-help"}}}
	publishes = &program{flags: "dry-run n help,h tag= access= p,package=", deeds: []rule{{PackagePublish, "!-dry-run !-help"}}}
	drops     = &program{flags: "help,h", deeds: []rule{{DatabaseDrop, "!-help"}}}
)
