package effects

var systemPrograms = map[string]*program{
	"systemctl": {
		flags: "user system now f,force q,quiet t,type= H,host= M,machine= n,lines= o,output= p,property= root= s,signal= kill-whom= a l no-pager no-reload",
		subs: map[string]*program{
			"enable": installs, "link": installs, "reenable": installs, "preset": installs, "add-wants": installs, "set-default": installs, "edit": installs, "set-environment": installs,
			"poweroff": stopsMachine, "reboot": stopsMachine, "halt": stopsMachine, "kexec": stopsMachine, "soft-reboot": stopsMachine, "rescue": stopsMachine, "emergency": stopsMachine,
			"isolate": stopsMachine, "suspend": stopsMachine, "hibernate": stopsMachine,
			"stop": {also: (*call).stopsService}, "disable": {also: (*call).stopsService}, "mask": {also: (*call).stopsService},
		},
	},
	"service":     {deeds: []rule{{FirewallOff, "@2=stop @1=*iptables*|@1=*firewall*|@1=ufw|@1=auditd|@1=apparmor|@1=fail2ban"}}},
	"crontab":     {flags: "l,list u,user= e r,remove i T=", deeds: []rule{{ServiceInstall, "!-l -e|-r|#1"}}, also: (*call).crontab},
	"at":          {flags: "f,file=R q,queue= t= l,list r,remove d c,cat m M v", deeds: []rule{{ServiceInstall, "!-l !-c !-r !-d #>0|-t"}}},
	"batch":       {deeds: []rule{{ServiceInstall, ""}}},
	"launchctl":   {subs: map[string]*program{"load": installs, "bootstrap": installs, "submit": installs, "enable": installs, "asuser": installs}},
	"update-rc.d": {deeds: []rule{{ServiceInstall, "#>1"}}},
	"chkconfig":   {flags: "add del list level=", deeds: []rule{{ServiceInstall, "-add"}, {ServiceInstall, "@2=on"}}},
	"rc-update":   {subs: map[string]*program{"add": installs}},
	"loginctl":    {subs: map[string]*program{"enable-linger": installs}},
	"incrontab":   {flags: "l,list e r d", deeds: []rule{{ServiceInstall, "!-l -e|#1"}}}, "fcrontab": {flags: "l e r z u=", deeds: []rule{{ServiceInstall, "!-l -e|#1"}}},
	"update-alternatives": {flags: "install set display list query auto config", dashes: true, deeds: []rule{{SystemFile, "-install|-set"}}},
	"defaults":            {deeds: []rule{{LoginFile, "@1=write @2=com.apple.loginwindow*|@2=*loginwindow"}}},
	"schtasks":            {deeds: []rule{{ServiceInstall, "@/create"}}},
	"systemd-run":         {flags: "on-calendar= on-boot= on-startup= on-active= on-unit-active= timer-property= u,unit= p,property= user scope t,pty wait", rest: true, deeds: []rule{{ServiceInstall, "-on-calendar|-on-boot|-on-startup|-on-active|-on-unit-active"}}},
	"insmod":              {deeds: []rule{{ServiceInstall, "#>0"}}},
	"modprobe":            {flags: "r,remove n,dry-run c,showconfig D", deeds: []rule{{ServiceInstall, "#>0 !-n !-c !-D"}}},
	"rmmod":               {deeds: []rule{{ServiceInstall, "#>0"}}},

	"shutdown": {flags: "c k h r P H f t=", deeds: []rule{{ProcessKill, "!-c !-k"}}},
	"reboot":   {flags: "f help", deeds: []rule{{ProcessKill, "!-help"}}},
	"halt":     {flags: "f p help", deeds: []rule{{ProcessKill, "!-help"}}},
	"poweroff": {flags: "f help", deeds: []rule{{ProcessKill, "!-help"}}},
	"init":     {deeds: []rule{{ProcessKill, "@1=0|@1=1|@1=6|@1=s"}}},
	"telinit":  {deeds: []rule{{ProcessKill, "@1=0|@1=1|@1=6|@1=s"}}},
	"kill":     {also: (*call).kill},
	"pkill":    {flags: "u,euid= U,uid= g= G= P= s= t= signal= f,full x,exact n o v,inverse e c 9", deeds: []rule{{ProcessKill, "-u|-U #0"}, {ProcessKill, "-v"}, {ProcessKill, "@.|@.*|@init|@systemd|@sshd|@[?]"}}},
	"killall":  {flags: "u,user= s,signal= g e r,regexp i I q v w Z= o= y= 9", deeds: []rule{{ProcessKill, "-u #0"}, {ProcessKill, "-r @.*"}, {ProcessKill, "@init|@systemd|@sshd"}}},
	"killall5": {deeds: []rule{{ProcessKill, ""}}},
	"skill":    {deeds: []rule{{ProcessKill, ""}}},

	"set":        {deeds: []rule{{HistoryTamper, "@+o @history"}}},
	"history":    {flags: "c d= w a r n p s", deeds: []rule{{HistoryTamper, "-c|-d"}}},
	"unset":      {deeds: []rule{{HistoryTamper, "@histfile|@histsize"}}},
	"journalctl": {flags: "vacuum-size= vacuum-time= vacuum-files= rotate u,unit= n,lines= p,priority= S,since= U,until= o,output= f k b? D= file= g= t= output-fields=", deeds: []rule{{HistoryTamper, "-vacuum-size|-vacuum-time|-vacuum-files"}}},
	"auditctl":   {flags: "D e= d= w= p= k= a= l s", deeds: []rule{{FirewallOff, "-D"}, {FirewallOff, "-e=0"}}},
	"wevtutil":   {deeds: []rule{{HistoryTamper, "@1=cl"}}},
	"dmesg":      {flags: "c,read-clear C,clear", deeds: []rule{{HistoryTamper, "-C"}}},

	"iptables":     {flags: "F,flush X,delete-chain P,policy= t,table= A= I= D= L,list n v j= p= s= d= i= o= m= S Z N=", deeds: []rule{{FirewallOff, "-F|-X"}, {FirewallOff, "-P @accept"}}},
	"ip6tables":    {flags: "F,flush X,delete-chain P,policy= t,table= A= I= D= L,list n v j= p= s= d= i= o= m= S Z N=", deeds: []rule{{FirewallOff, "-F|-X"}, {FirewallOff, "-P @accept"}}},
	"nft":          {deeds: []rule{{FirewallOff, "@flush|@1=delete"}}},
	"ufw":          {flags: "force dry-run", deeds: []rule{{FirewallOff, "@1=disable|@1=reset !-dry-run"}, {FirewallOff, "@1=default @allow"}}},
	"firewall-cmd": {flags: "panic-off set-default-zone= zone= permanent reload add-port= add-service= remove-service= state list-all", deeds: []rule{{FirewallOff, "-panic-off"}, {FirewallOff, "-set-default-zone=trusted"}}},
	"setenforce":   {deeds: []rule{{FirewallOff, "@0|@permissive"}}},
	"pfctl":        {flags: "d e f=R F= s= a= v n", deeds: []rule{{FirewallOff, "-d|-F"}}},
	"csrutil":      {deeds: []rule{{FirewallOff, "@disable"}}},
	"spctl":        {flags: "master-disable global-disable add status assess", deeds: []rule{{FirewallOff, "-master-disable|-global-disable"}}},
	"netsh":        {deeds: []rule{{FirewallOff, "@off|@disable"}}},
	"aa-teardown":  {deeds: []rule{{FirewallOff, ""}}},
	"aa-disable":   {deeds: []rule{{FirewallOff, ""}}},
	"swapoff":      {}, "sysctl": {flags: "w p a n q e", deeds: []rule{{FirewallOff, "@kernel.randomize_va_space=0|@kernel.yama.ptrace_scope=0"}}},

	"useradd": manages, "userdel": manages, "usermod": manages, "adduser": manages, "deluser": manages, "groupadd": manages, "groupdel": manages,
	"groupmod": manages, "addgroup": manages, "delgroup": manages, "gpasswd": manages, "chpasswd": {deeds: []rule{{UserManagement, ""}}}, "vipw": {deeds: []rule{{UserManagement, ""}}},
	"visudo": {flags: "c,check f,file= q s", deeds: []rule{{UserManagement, "!-c"}}}, "newusers": manages, "chsh": {flags: "s,shell= l", deeds: []rule{{UserManagement, "!-l"}}},
	"passwd":      {flags: "S,status l d u e n= x= w= i= stdin a", deeds: []rule{{UserManagement, "!-S"}}},
	"chage":       {flags: "l,list d= E= I= m= M= W=", deeds: []rule{{UserManagement, "!-l"}}},
	"dscl":        {flags: "create delete passwd append", dashes: true, deeds: []rule{{UserManagement, "-create|-delete|-passwd|-append"}}},
	"sysadminctl": {flags: "adduser= deleteuser= resetpasswordfor=", dashes: true, deeds: []rule{{UserManagement, "-adduser|-deleteuser|-resetpasswordfor"}}},
	"net":         {deeds: []rule{{UserManagement, "@1=user @/add|@/delete"}, {UserManagement, "@1=localgroup @/add"}}},
}

var (
	installs     = &program{flags: "help,h", deeds: []rule{{ServiceInstall, "!-help"}}}
	stopsMachine = &program{flags: "help,h", deeds: []rule{{ProcessKill, "!-help"}}}
	manages      = &program{flags: "help,h D,defaults", deeds: []rule{{UserManagement, "#>0 !-help !-D"}}}
)
