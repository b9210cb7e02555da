package effects

// programs are keyed by their base names in lower case.
var programs map[string]*program

func init() {
	programs = map[string]*program{}
	for _, table := range []map[string]*program{files, gitPrograms, systemPrograms, networkPrograms, infrastructure, databases, publishing} {
		for name, p := range table {
			programs[name] = p
		}
	}
	for name, of := range sameAs {
		programs[name] = programs[of]
	}
}

// sameAs are other names of programs.
var sameAs = map[string]string{
	"srm": "rm", "del-cli": "rimraf", "wipe": "shred",
	"egrep": "grep", "fgrep": "grep", "rgrep": "grep", "zcat": "cat", "bzcat": "cat", "xzcat": "cat", "less": "vim", "more": "cat", "bat": "cat", "nl": "cat",
	"ls": "cat", "ll": "cat", "tree": "cat", "du": "cat",
	"tac": "cat", "strings": "cat", "xxd": "cat", "hexdump": "cat", "od": "cat", "wc": "cat", "file": "cat", "stat": "cat", "md5sum": "cat",
	"sha1sum": "cat", "sha256sum": "cat", "sha512sum": "cat", "cksum": "cat", "base64": "cat", "base32": "cat", "rev": "cat", "readlink": "cat",
	"realpath": "cat", "cmp": "diff", "sdiff": "diff", "vimdiff": "diff", "comm": "diff", "bunzip2": "gzip", "bzip2": "gzip", "xz": "gzip", "unxz": "gzip",
	"gunzip": "gzip", "zstd": "gzip", "compress": "gzip", "nvim": "vim", "vi": "vim", "nano": "vim", "emacs": "vim", "pico": "vim", "ed": "vim", "ex": "vim",
	"ncat": "nc", "netcat": "nc", "nc.openbsd": "nc", "nc.traditional": "nc", "xh": "http", "xhs": "http", "curlie": "curl", "ftp": "lftp", "sftp": "lftp", "tftp": "lftp", "drill": "dig",
	"paste": "cat", "fold": "cat", "pr": "cat", "expand": "cat", "unexpand": "cat", "fmt": "cat", "column": "cat", "look": "cat", "rg": "grep", "ag": "grep", "ack": "grep",
	"gpatch": "patch", "bsdtar": "tar", "chgrp": "chown", "mke2fs": "mkfs", "mkfs": "mkfs", "newfs": "mkfs", "mkswap": "mkfs", "mkdosfs": "mkfs",
	"cfdisk": "fdisk", "gdisk": "fdisk", "7za": "7z", "7zz": "7z",
}

// namesOnly are programs that tables need not have, to which the names of files are only names, or
// that use a key as it is meant to be used.
var namesOnly = map[string]bool{
	"echo": true, "printf": true, "test": true, "[": true, "cd": true, "pushd": true, "popd": true, "export": true, "alias": true, "read": true, "basename": true, "dirname": true, "which": true,
	"type": true, "command": true, "exit": true, "return": true, "true": true, "false": true, ":": true, "sleep": true, "ssh-add": true, "ssh-keygen": true, "ssh-copy-id": true, "ssh-keyscan": true, "seq": true, "expr": true,
	"trap": true, "hash": true, "local": true, "declare": true, "set": true, "eval": true, "time": true, "pgrep": true, "open": true, "xdg-open": true,
}

var files = map[string]*program{
	"rm": {
		flags: "r,R,recursive f,force i I d,dir v,verbose interactive? one-file-system no-preserve-root preserve-root help version",
		words: "D...",
		deeds: []rule{{DeleteRecursive, "-r !-help #>0"}},
	},
	"rmdir":    {flags: "p,parents v,verbose ignore-fail-on-non-empty", words: "E..."},
	"unlink":   {words: "D..."},
	"shred":    {flags: "u,remove? n,iterations= s,size= z,zero f,force v,verbose x,exact random-source= r,R", words: "D...", deeds: []rule{{DeleteRecursive, "-r #>0"}}},
	"truncate": {flags: "s,size= r,reference=R c,no-create o,io-blocks", words: "W...", also: (*call).empties},
	"cp": {
		flags: "t,target-directory=W T,no-target-directory S,suffix= r,R,recursive a,archive f,force i n,no-clobber p u,update v,verbose L P d l s x backup? preserve? no-preserve= reflink? sparse= context?",
		also:  (*call).copies,
	},
	"mv": {
		flags: "t,target-directory=W T,no-target-directory S,suffix= f,force i n,no-clobber u,update v,verbose backup?",
		also:  (*call).moves,
	},
	"install": {
		flags: "t,target-directory=W T,no-target-directory S,suffix= d,directory D m,mode= o,owner= g,group= p,preserve-timestamps s,strip strip-program= v,verbose C,compare backup? b",
		also:  (*call).installs,
	},
	"ln": {
		flags: "t,target-directory=W T,no-target-directory S,suffix= s,symbolic f,force n,no-dereference r,relative v,verbose b backup? i L P",
		also:  (*call).links,
	},
	"mkdir":  {flags: "p,parents m,mode= v,verbose Z context?", words: "W..."},
	"touch":  {flags: "a c,no-create d,date= f h m r,reference=R t= time=", words: "W..."},
	"mktemp": {flags: "d,directory u,dry-run q,quiet p,tmpdir= suffix= t"},
	"tee":    {flags: "a,append i,ignore-interrupts p output-error?", words: "W..."},
	"sponge": {flags: "a", words: "W..."},
	"dd":     {also: (*call).dd},
	"sed": {
		flags: "n,quiet,silent e,expression= f,file=R i,in-place? E,regexp-extended r s,separate z,null-data l,line-length= b,binary u,unbuffered follow-symlinks posix debug sandbox",
		also:  (*call).sed,
	},
	"perl":   {flags: "e= E= i? n p a l? 0? I= M? m? F? w W T t c d s S u U x?", words: "R...", also: (*call).inPlace},
	"ruby":   {flags: "e= i? n p a l 0? I= r= F? w W? C= E=", also: (*call).inPlace},
	"python": {flags: "c= m= W= X= Q=", rest: true, also: (*call).pythonModule},
	"awk":    {flags: "f,file=R F,field-separator= v,assign= i,include=", words: "_ R..."},
	"sort":   {flags: "o,output=W k,key= t,field-separator= S,buffer-size= T,temporary-directory= files0-from=R parallel= compress-program= sort= m u n r", words: "R..."},
	"uniq":   {flags: "f,skip-fields= s,skip-chars= w,check-chars= c d u i", words: "R W"},
	"split":  {flags: "a,suffix-length= b,bytes= C,line-bytes= l,lines= n,number= additional-suffix= filter= t,separator=", words: "R _"},
	"patch":  {flags: "p,strip= i,input=R d,directory= o,output=W r,reject-file=W b B= D= F= V= Y= z= R,reverse dry-run E N t f s", words: "W R"},
	"grep": {
		flags: "e,regexp= f,file=R A,after-context= B,before-context= C,context= m,max-count= d= D= include= exclude= exclude-dir= exclude-from=R color? colour? label= binary-files=",
		also:  (*call).grep,
	},
	"cat":  {flags: "n= c= b= s= S= w= e= l= j= N= t= d,decode i format= printf=", words: "R..."},
	"head": {flags: "n,lines= c,bytes= q v z", words: "R..."},
	"tail": {flags: "n,lines= c,bytes= s,sleep-interval= pid= max-unchanged-stats= f F q v z follow?", words: "R..."},
	"cut":  {flags: "d,delimiter= f,fields= b,bytes= c,characters= output-delimiter=", words: "R..."},
	"diff": {flags: "U,unified= C,context= I= x= X=R L,label= W,width= F= from-file= to-file= color?", words: "R..."},
	"jq":   {flags: "arg= argjson= slurpfile= rawfile= f,from-file=R L= indent= tab", words: "_ R..."},
	"yq":   {flags: "i,inplace o,output-format= p,input-format= e I=", words: "_ R...", also: (*call).inPlace},
	"tar": {
		flags: "f,file= C,directory= c,create r,append,concatenate u,update x,extract,get t,list remove-files T,files-from=R X,exclude-from=R exclude= strip-components= transform,xform= to-command= " +
			"checkpoint-action= checkpoint? I,use-compress-program= F,info-script,new-volume-script= b,blocking-factor= g,listed-incremental=W index-file=W rsh-command= rmt-command= owner= group= mode= " +
			"mtime= N,newer,after-date= K,starting-file= L,tape-length= V,label= H,format= suffix= backup? to-stdout recursive-unlink",
		also: (*call).tar,
	},
	"unzip":       {flags: "d=W x= P= l t o n q v", words: "R _..."},
	"zip":         {flags: "r,recurse-paths b= i,include= x,exclude= n= t= tt= P= m,move T,test TT,unzip-command=", words: "W R...", also: (*call).zips},
	"7z":          {words: "_ W R..."},
	"gzip":        {flags: "S,suffix= c,stdout,to-stdout d,decompress k,keep l,list t,test T= o=W f n N q r v 1 9", also: (*call).compresses},
	"apply_patch": {also: (*call).applyPatch}, "applypatch": {also: (*call).applyPatch},
	"rimraf": {flags: "g,glob v,verbose preserve-root no-preserve-root max-retries= impl= help", words: "D...", deeds: []rule{{DeleteRecursive, "#>0"}}},
	"find":   {also: (*call).find},
	"vim":    {flags: "c= cmd= S=R u= i= T= s w=W W=W", words: "R...", also: (*call).edits},
	"source": {}, ".": {},
	"chmod":   {flags: "R,recursive v,verbose c,changes f,silent,quiet reference=R preserve-root no-preserve-root", also: (*call).chmod},
	"chown":   {flags: "R,recursive v,verbose c,changes f,silent,quiet h,no-dereference H L P from= reference=R preserve-root no-preserve-root", deeds: []rule{{OwnerChange, "-R #>1"}}, also: (*call).changes},
	"setfacl": {flags: "m,modify= M=R x,remove= X=R R,recursive b k d", deeds: []rule{{PermissionLoosen, "-R -m"}}},
	"setcap":  {deeds: []rule{{PermissionLoosen, "#>0 !@-r"}}},
	"chattr":  {words: "_ W..."},

	"mkfs":       {flags: "t,type= b= L= m= O= F f q U= n= i= N= I= E=", words: "_...", deeds: []rule{{OverwriteDevice, "#>0"}}},
	"wipefs":     {flags: "a,all o,offset= t,types= n,no-act f,force b,backup q", deeds: []rule{{OverwriteDevice, "-a|-o !-n"}}},
	"fdisk":      {flags: "l,list s,getsz b= c= u= t= w=", deeds: []rule{{OverwriteDevice, "#>0 !-l !-s"}}},
	"sfdisk":     {flags: "l,list d,dump J,json s,show-size V,verify N= X= n,no-act delete", deeds: []rule{{OverwriteDevice, "#>0 !-l !-d !-J !-s !-V !-n"}}},
	"sgdisk":     {flags: "p,print i,info= v,verify Z,zap-all z,zap o,clear d,delete= n,new= t= b,backup=W", deeds: []rule{{OverwriteDevice, "-Z|-z|-o|-d|-n"}}},
	"parted":     {flags: "l,list s,script a,align= m", deeds: []rule{{OverwriteDevice, "@mklabel|@mktable|@mkpart|@rm|@resizepart"}}},
	"blkdiscard": {flags: "o,offset= l,length= p,step= s f z v", deeds: []rule{{OverwriteDevice, "#>0"}}},
	"badblocks":  {flags: "w n b= c= p= o= s v", deeds: []rule{{OverwriteDevice, "-w"}}},
	"hdparm":     {flags: "security-erase= security-erase-enhanced= trim-sector-ranges", deeds: []rule{{OverwriteDevice, "-security-erase|-security-erase-enhanced|-trim-sector-ranges"}}},
	"nvme":       {subs: map[string]*program{"format": destroysDevice, "sanitize": destroysDevice}},
	"diskutil":   {subs: map[string]*program{"erasedisk": destroysDevice, "erasevolume": destroysDevice, "partitiondisk": destroysDevice, "secureerase": destroysDevice, "reformat": destroysDevice, "zerodisk": destroysDevice, "apfs": {deeds: []rule{{OverwriteDevice, "@delete*|@erase*"}}}}},
	"cryptsetup": {flags: "c= h= s= d= S= type= y q", deeds: []rule{{OverwriteDevice, "@luksformat|@erase|@lukserase|@reencrypt"}}},
	"mdadm":      {flags: "zero-superblock create,C stop,S", deeds: []rule{{OverwriteDevice, "-zero-superblock"}}},
	"lvremove":   {deeds: []rule{{OverwriteDevice, ""}}}, "vgremove": {deeds: []rule{{OverwriteDevice, ""}}}, "pvremove": {deeds: []rule{{OverwriteDevice, ""}}}, "pvcreate": {deeds: []rule{{OverwriteDevice, "#>0"}}},
	"zpool": {subs: map[string]*program{"destroy": destroysDevice, "create": destroysDevice, "labelclear": destroysDevice}},
	"zfs":   {subs: map[string]*program{"destroy": destroysDevice, "rollback": destroysDevice}},
	"btrfs": {deeds: []rule{{OverwriteDevice, "@1=su* @2=d*"}}},
}

var destroysDevice = &program{deeds: []rule{{OverwriteDevice, ""}}}
