package effects

const curlFlags = "o,output=W O,remote-name J,remote-header-name X,request= d,data,data-ascii= data-binary= data-raw= data-urlencode= json= F,form= form-string= T,upload-file= " +
	"H,header= A,user-agent= e,referer= b,cookie= c,cookie-jar=W u,user= x,proxy= U,proxy-user= m,max-time= connect-timeout= r,range= K,config=R w,write-out= url-query= variable= expand-url= proxy-header= " +
	"E,cert=R key=R cacert=R capath= D,dump-header=W C,continue-at= y= Y= z= Q,quote= P= t= retry= retry-delay= retry-max-time= limit-rate= max-redirs= max-filesize= resolve= " +
	"interface= unix-socket= url=H output-dir=W create-dirs ciphers= tls-max= proto= proto-redir= oauth2-bearer= netrc-file=R trace=W trace-ascii=W stderr=W hostpubmd5= " +
	"f,fail s,silent S,show-error L,location k,insecure i,include I,head v,verbose G,get N g 0 4 6 n,netrc a l p # compressed"

var networkPrograms = map[string]*program{
	"curl": {flags: curlFlags, words: "H...", also: (*call).curl},
	"wget": {
		flags: "O,output-document=W o,output-file=W a,append-output=W P,directory-prefix=W i,input-file=R post-data= post-file= body-data= body-file= header= U,user-agent= e,execute= " +
			"t,tries= T,timeout= w,wait= Q,quota= l,level= A,accept= R,reject= D,domains= I= X= user= password= referer= method= load-cookies=R save-cookies=W limit-rate= " +
			"q,quiet v nv c,continue N r,recursive p m k E S b,background no-check-certificate base= B= cut-dirs= certificate=R private-key=R ca-certificate=R waitretry= read-timeout= connect-timeout= max-redirect=",
		words: "H...", also: (*call).wget,
	},
	"aria2c": {flags: "o,out=W d,dir=W i,input-file=R x= s= k= j= header=", words: "H...", also: (*call).saves},
	"http":   {flags: "o,output=W d,download a,auth= A= v b h f j", also: (*call).httpie}, "https": {flags: "o,output=W d,download a,auth= A= v b h f j", also: (*call).httpie},
	// The key that -i names serves to log in, and is shown to nobody.
	"ssh": {flags: "B= b= c= D= E= e= F=R I= i= J= L= l= m= O= o= p= Q= R= S= W= w= A C f g K k M N n q s T t V v X x Y y", words: "H", rest: true, also: (*call).ssh},
	"scp": {flags: "c= D= F=R i= J= l= o= P= S= X= r p q C v 3 B T", also: (*call).transfers},
	"rsync": {
		flags: "e,rsh= f,filter= exclude= exclude-from=R include= include-from=R files-from=R T,temp-dir= compare-dest= copy-dest= link-dest= log-file=W password-file=R port= bwlimit= " +
			"timeout= suffix= backup-dir=W max-size= min-size= chmod= chown= rsync-path= out-format= partial-dir= B= M= delete delete-before delete-during delete-after delete-excluded del " +
			"a,archive v,verbose r,recursive n,dry-run z u remove-source-files info= progress P",
		also: (*call).transfers,
	},
	"lftp":   {flags: "b=R c= e= D= F=R i= J= l= o= P= R= S= s= u= p= f=R", words: "H _...", also: (*call).transfersTexts},
	"nc":     {flags: "l,listen p,source-port= s,source= w,wait= q= e,exec= c,sh-exec= x,proxy= X= i= I= O= T= V= u,udp v n z k N 4 6 C", words: "H _", also: (*call).netcat},
	"telnet": {words: "H _", also: (*call).mails}, "openssl": {subs: map[string]*program{"s_client": {flags: "connect=H host=H port= servername= CAfile=R", dashes: true, also: (*call).mails}}},
	"getent": {words: "_ H..."}, "resolvectl": {words: "_ H..."}, "logger": {flags: "n,server=H f,file=U P= t= p= T u", also: (*call).mails}, "mosquitto_pub": {flags: "h=H t= f=U m= p= u= P= s l", also: (*call).mails},
	"swaks": {flags: "t,to= f,from= s,server=H attach=U body=U h= header=", also: (*call).mails}, "msmtp": {also: (*call).mails},
	"wormhole": {subs: map[string]*program{"send": sendsWords}}, "magic-wormhole": {subs: map[string]*program{"send": sendsWords}}, "croc": {subs: map[string]*program{"send": sendsWords}},
	"s3cmd": {subs: map[string]*program{"put": {also: (*call).uploadsWords}, "sync": {also: (*call).uploadsWords}}}, "b2": {subs: map[string]*program{"upload-file": {words: "_ U _"}, "upload_file": {words: "_ U _"}}},
	"socat": {also: (*call).socat},
	"ping":  {flags: "c= i= W= w= s= t= I= p= Q= S= M= m= l=", words: "H"}, "dig": {flags: "f=R k=R p= q= t= x= b= c=", words: "H..."},
	"nslookup": {words: "H..."}, "host": {flags: "t= W= N= R= c= m=", words: "H..."}, "traceroute": {words: "H"}, "whois": {words: "H"},
	"mail": {flags: "s= a,attach=U A=U c= b= r= q=R", also: (*call).mails}, "mailx": {flags: "s= a=U A=U c= b= r= q=R", also: (*call).mails}, "mutt": {flags: "s= a=U c= b= i=R F=R e=", also: (*call).mails},
	"sendmail": {also: (*call).mails},
	"rclone":   {flags: "config=R n,dry-run", subs: map[string]*program{"copy": {also: (*call).uploadsWords}, "copyto": {also: (*call).uploadsWords}, "moveto": {also: (*call).uploadsWords}, "rcat": {also: (*call).mails}, "sync": {also: (*call).uploadsWords}, "move": {also: (*call).uploadsWords}, "delete": destroys, "purge": destroys, "deletefile": destroys}},
	"pip":      {flags: "i,index-url=H r=R"},
}

// sendsWords sends files to whoever has a code.
var sendsWords = &program{flags: "code= text= c=", words: "U..."}

var publishing = map[string]*program{
	"npm":   {flags: "C,prefix= w,workspace= loglevel=", subs: map[string]*program{"publish": publishes, "unpublish": publishes, "deprecate": publishes, "dist-tag": {deeds: []rule{{PackagePublish, "@1=add|@1=rm"}}}, "owner": {deeds: []rule{{PackagePublish, "@1=add|@1=rm"}}}}},
	"pnpm":  {flags: "C,dir= F,filter=", subs: map[string]*program{"publish": publishes}},
	"yarn":  {subs: map[string]*program{"publish": publishes, "npm": {subs: map[string]*program{"publish": publishes}}}},
	"bun":   {subs: map[string]*program{"publish": publishes}},
	"lerna": {subs: map[string]*program{"publish": publishes}}, "changeset": {subs: map[string]*program{"publish": publishes}},
	"cargo": {flags: "Z= config= C= manifest-path=", subs: map[string]*program{"publish": publishes, "yank": publishes}},
	"twine": {subs: map[string]*program{"upload": publishes}}, "poetry": {subs: map[string]*program{"publish": publishes}}, "uv": {subs: map[string]*program{"publish": publishes}},
	"flit": {subs: map[string]*program{"publish": publishes}}, "hatch": {subs: map[string]*program{"publish": publishes}}, "pdm": {subs: map[string]*program{"publish": publishes}},
	"gem": {subs: map[string]*program{"push": publishes, "yank": publishes}}, "pod": {subs: map[string]*program{"trunk": {subs: map[string]*program{"push": publishes}}}},
	"mvn":    {flags: "f= P= pl= D? s=", dashes: true, deeds: []rule{{PackagePublish, "@deploy|@release:perform"}}},
	"gradle": {deeds: []rule{{PackagePublish, "@publish|@*:publish|@publishplugins|@uploadarchives"}}}, "gradlew": {deeds: []rule{{PackagePublish, "@publish|@*:publish|@publishplugins|@uploadarchives"}}},
	"dotnet": {subs: map[string]*program{"nuget": {subs: map[string]*program{"push": publishes, "delete": publishes}}, "ef": {subs: map[string]*program{"database": {subs: map[string]*program{"drop": drops}}}}}},
	"nuget":  {subs: map[string]*program{"push": publishes, "delete": publishes}}, "vsce": {subs: map[string]*program{"publish": publishes, "unpublish": publishes}},
	"goreleaser": {subs: map[string]*program{"release": {flags: "snapshot skip=", deeds: []rule{{PackagePublish, "!-snapshot"}}}}},
	"mix":        {subs: map[string]*program{"hex.publish": publishes, "ecto.drop": drops, "ecto.reset": drops}}, "dart": {subs: map[string]*program{"pub": {subs: map[string]*program{"publish": publishes}}}},
	"semantic-release": {flags: "dry-run d", deeds: []rule{{PackagePublish, "!-dry-run !-d"}}},
}
