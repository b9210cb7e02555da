package effects

var gitPrograms = map[string]*program{
	"git": {
		flags: "C= c= git-dir= work-tree= namespace= exec-path? p,paginate P,no-pager bare no-replace-objects literal-pathspecs version,v help,h",
		subs: map[string]*program{
			"push": {
				flags: "f,force force-with-lease? force-if-includes mirror d,delete prune all tags follow-tags o,push-option= repo= receive-pack= exec= n,dry-run u,set-upstream q,quiet v,verbose no-verify atomic signed? thin recurse-submodules=",
				deeds: []rule{{GitForcePush, "-f|-mirror|-d|-prune !-n"}, {GitForcePush, "@+*|@:?* !-n"}},
				also:  (*call).gitRemote,
			},
			"reset":          {flags: "hard soft mixed merge keep q,quiet p,patch N pathspec-from-file=R", deeds: []rule{{GitDiscard, "-hard"}}},
			"checkout":       {flags: "b= B= orphan= f,force p,patch ours theirs m,merge conflict= t,track? d,detach q,quiet l no-overlay overlay pathspec-from-file=R recurse-submodules", also: (*call).gitCheckout},
			"switch":         {flags: "f,force discard-changes c,create= C,force-create= d,detach orphan= m,merge conflict= t,track? q", deeds: []rule{{GitDiscard, "-f|-discard-changes"}}},
			"restore":        {flags: "S,staged W,worktree s,source= p,patch q m ours theirs conflict= pathspec-from-file=R", deeds: []rule{{GitDiscard, "!-S #>0 !-p"}, {GitDiscard, "-W"}}},
			"clean":          {flags: "f,force d x X n,dry-run e,exclude= i,interactive q,quiet", deeds: []rule{{GitDiscard, "-f !-n"}}},
			"stash":          {subs: map[string]*program{"drop": discards, "clear": discards}},
			"branch":         {flags: "D d,delete f,force m,move M c,copy C a,all r,remotes l,list v u,set-upstream-to= contains? no-contains? merged? no-merged? sort= format= points-at= show-current t,track? edit-description unset-upstream color? column?", deeds: []rule{{GitDiscard, "-D"}, {GitDiscard, "-d -f"}}},
			"reflog":         {subs: map[string]*program{"expire": discards, "delete": discards}},
			"gc":             {flags: "prune? aggressive auto quiet force", deeds: []rule{{GitDiscard, "-prune=now|-prune=all"}}},
			"prune":          {flags: "n,dry-run v expire=", deeds: []rule{{GitDiscard, "!-n"}}},
			"filter-branch":  {flags: "f,force tree-filter= index-filter= msg-filter= env-filter= commit-filter= d=", deeds: []rule{{GitDiscard, ""}}},
			"filter-repo":    {deeds: []rule{{GitDiscard, "!-dry-run !-analyze"}}},
			"update-ref":     {flags: "d m= stdin no-deref", deeds: []rule{{GitDiscard, "-d"}}},
			"read-tree":      {flags: "reset m u", deeds: []rule{{GitDiscard, "-reset -u"}}},
			"checkout-index": {flags: "f,force a,all u", deeds: []rule{{GitDiscard, "-f"}}},
			"worktree":       {subs: map[string]*program{"remove": {flags: "f,force", deeds: []rule{{GitDiscard, "-f"}}}}},
			"submodule":      {subs: map[string]*program{"deinit": {flags: "f,force all", deeds: []rule{{GitDiscard, "-f"}}}}},
			"rm":             {flags: "r f,force cached q,quiet n,dry-run ignore-unmatch", deeds: []rule{{GitDiscard, "-f !-cached !-n"}}, also: (*call).gitRm},
			"mv":             {flags: "f,force k n,dry-run v", words: "M... W"},
			"clone":          {flags: "b,branch= o,origin= depth= reference= j,jobs= c,config= template= u= separate-git-dir=W shallow-since= filter= single-branch recurse-submodules? bare mirror q", words: "H W"},
			"fetch":          {flags: "depth= j= o= upload-pack= a all p,prune t,tags f q", also: (*call).gitRemote},
			"pull":           {flags: "s= X= depth= j= r,rebase? all f q", also: (*call).gitRemote},
			"ls-remote":      {flags: "h t q o= upload-pack= sort=", also: (*call).gitRemote},
			"config":         {flags: "global system local f,file=W unset get add list l e get-all get-regexp unset-all type= default= remove-section rename-section worktree", also: (*call).gitConfig},
			"apply":          {flags: "p= C= directory= exclude= include= whitespace= check stat R cached index 3", words: "R..."},
			"add":            {flags: "A p u f n v chmod= pathspec-from-file=R"},
			"archive":        {flags: "o,output=W format= prefix= remote= add-file=R"},
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

// postsBody publishes a text.
var postsBody = &program{flags: "F,body-file=U b,body= t,title= l,label= a,assignee= R,repo= B,base= H,head=", also: (*call).posts}

var (
	discards  = &program{flags: "n,dry-run", deeds: []rule{{GitDiscard, "!-n"}}}
	destroys  = &program{flags: "dry-run dryrun help,h", deeds: []rule{{Infrastructure, "!-dry-run !-dryrun !-help"}}}
	publishes = &program{flags: "dry-run n help,h tag= access= p,package=", deeds: []rule{{PackagePublish, "!-dry-run !-help"}}}
	drops     = &program{flags: "help,h", deeds: []rule{{DatabaseDrop, "!-help"}}}
)
