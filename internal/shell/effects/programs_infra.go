package effects

const kubectlFlags = "n,namespace= context= kubeconfig= cluster= user= s,server= token= as= v= l,selector= f,filename=R k,kustomize=R all A,all-namespaces force grace-period= cascade? dry-run? o,output= wait? timeout= field-selector= now"

var terraform = &program{
	flags: "chdir= var= var-file=R target= state=R out=W lock-timeout= backup=W auto-approve destroy help", dashes: true,
	subs: map[string]*program{
		"destroy":      {flags: "auto-approve target= var= var-file=R help", dashes: true, deeds: []rule{{Infrastructure, "!-help"}}},
		"apply":        {flags: "destroy auto-approve target= var= var-file=R replace=", dashes: true, deeds: []rule{{Infrastructure, "-destroy"}}},
		"state":        {dashes: true, subs: map[string]*program{"rm": {deeds: []rule{{Infrastructure, "!-dry-run"}}, dashes: true}}},
		"workspace":    {dashes: true, subs: map[string]*program{"delete": destroys}},
		"run-all":      {dashes: true, subs: map[string]*program{"destroy": destroys}},
		"force-unlock": destroys,
	},
}

var infrastructure = map[string]*program{
	"terraform": terraform, "tofu": terraform, "terragrunt": terraform,
	"pulumi": {flags: "C,cwd= s,stack=", subs: map[string]*program{"destroy": destroys, "stack": {subs: map[string]*program{"rm": destroys}}}},
	"cdk":    {subs: map[string]*program{"destroy": destroys}}, "serverless": {subs: map[string]*program{"remove": destroys}}, "sls": {subs: map[string]*program{"remove": destroys}},
	"sam": {subs: map[string]*program{"delete": destroys}}, "copilot": {subs: map[string]*program{"delete": destroys}}, "eb": {subs: map[string]*program{"terminate": destroys}},
	"kubectl": {
		flags: kubectlFlags,
		subs: map[string]*program{
			"delete": {flags: kubectlFlags, deeds: []rule{
				{Infrastructure, "!-dry-run -all|-A"},
				{Infrastructure, "!-dry-run @1=ns|@1=namespace|@1=namespaces|@1=ns/*|@1=namespace/*|@1=pv|@1=pvc|@1=persistentvolume*|@1=pv/*|@1=pvc/*|@1=crd|@1=crd/*|@1=customresourcedefinition*|@1=node|@1=nodes|@1=node/*|@1=all"},
			}},
			"drain":   {flags: kubectlFlags + " ignore-daemonsets delete-emptydir-data pod-selector= skip-wait-for-delete-timeout=", deeds: []rule{{Infrastructure, "!-dry-run"}}},
			"replace": {flags: kubectlFlags, deeds: []rule{{Infrastructure, "-force"}}},
		},
	},
	"helm":   {flags: "n,namespace= kube-context= kubeconfig=", subs: map[string]*program{"uninstall": destroys, "delete": destroys, "un": destroys, "del": destroys, "push": publishes}},
	"argocd": {subs: map[string]*program{"app": {subs: map[string]*program{"delete": destroys}}}}, "flux": {subs: map[string]*program{"uninstall": destroys}},
	"eksctl": {subs: map[string]*program{"delete": destroys}}, "kops": {subs: map[string]*program{"delete": {flags: "yes name= state=", deeds: []rule{{Infrastructure, "-yes"}}}}},
	"aws": {
		flags: "profile= region= output= endpoint-url= query= body=U cli-input-json= no-cli-pager debug",
		subs: map[string]*program{
			"s3": {subs: map[string]*program{
				"rb":   {flags: "force", deeds: []rule{{Infrastructure, ""}}},
				"rm":   {flags: "recursive dryrun exclude= include=", deeds: []rule{{Infrastructure, "-recursive !-dryrun"}}},
				"sync": {flags: "delete dryrun exclude= include= acl=", deeds: []rule{{Infrastructure, "-delete !-dryrun"}}, also: (*call).transfers},
				"cp":   {flags: "recursive dryrun exclude= include= acl=", also: (*call).transfers},
				"mv":   {flags: "recursive dryrun exclude= include= acl=", also: (*call).transfers},
			}},
		},
		deeds: []rule{{Infrastructure, "@2=delete-*|@2=terminate-*|@2=deregister-*|@2=purge-*|@2=schedule-key-deletion|@2=release-* !-dry-run"}},
	},
	"gcloud": {flags: "project= zone= region= account= q,quiet format= filter=", subs: map[string]*program{"storage": {subs: map[string]*program{"cp": {flags: "r,recursive", also: (*call).transfers}, "rsync": {flags: "r,recursive", also: (*call).transfers}}}}, deeds: []rule{{Infrastructure, "@delete|@2=rm"}}},
	"gsutil": {flags: "m q o= h=", subs: map[string]*program{"rm": {flags: "r,R a f", deeds: []rule{{Infrastructure, "-r"}, {Infrastructure, "@*[*]*"}}}, "rb": destroys, "cp": {flags: "r R n z= a=", also: (*call).transfers}, "rsync": {flags: "d r n x= c", deeds: []rule{{Infrastructure, "-d !-n"}}, also: (*call).transfers}}},
	"bq":     {flags: "project_id=", subs: map[string]*program{"rm": {flags: "r f d t", deeds: []rule{{DatabaseDrop, ""}}}}},
	"az":     {flags: "f,file=U g,resource-group= n,name= subscription= o,output= y,yes", deeds: []rule{{Infrastructure, "@delete|@purge|@delete-batch"}}},
	"doctl":  {deeds: []rule{{Infrastructure, "@delete|@destroy"}}},
	"hcloud": {deeds: []rule{{Infrastructure, "@delete"}}}, "linode-cli": {deeds: []rule{{Infrastructure, "@*delete"}}}, "oci": {deeds: []rule{{Infrastructure, "@delete|@terminate"}}},
	"heroku": {flags: "a,app= confirm=", deeds: []rule{{Infrastructure, "@1=apps:destroy|@1=apps:delete|@1=destroy|@1=addons:destroy"}, {DatabaseDrop, "@1=pg:reset"}}},
	"fly":    {flags: "a,app=", deeds: []rule{{Infrastructure, "@1=destroy|@2=destroy|@2=delete"}}}, "flyctl": {flags: "a,app=", deeds: []rule{{Infrastructure, "@1=destroy|@2=destroy|@2=delete"}}},
	"railway": {deeds: []rule{{Infrastructure, "@1=delete|@1=down"}}}, "vercel": {deeds: []rule{{Infrastructure, "@1=rm|@1=remove"}}}, "netlify": {deeds: []rule{{Infrastructure, "@1=sites:delete"}}},
	"wrangler": {deeds: []rule{{Infrastructure, "@1=delete|@2=delete"}}}, "firebase": {deeds: []rule{{Infrastructure, "@1=*:delete|@1=hosting:disable"}}},
	"vault":   {subs: map[string]*program{"delete": destroys, "kv": {subs: map[string]*program{"delete": destroys, "destroy": destroys}}, "secrets": {subs: map[string]*program{"disable": destroys}}}},
	"consul":  {subs: map[string]*program{"kv": {subs: map[string]*program{"delete": {flags: "recurse", dashes: true, deeds: []rule{{Infrastructure, "-recurse"}}}}}}},
	"etcdctl": {flags: "endpoints= cert= key= cacert=", subs: map[string]*program{"del": {flags: "prefix from-key", deeds: []rule{{DatabaseDrop, "-prefix|-from-key"}}}}},
	"vagrant": {subs: map[string]*program{"destroy": destroys}}, "multipass": {subs: map[string]*program{"delete": destroys, "purge": destroys}},
	"virsh": {flags: "c,connect=", subs: map[string]*program{"undefine": destroys, "vol-delete": destroys, "pool-delete": destroys}}, "qm": {subs: map[string]*program{"destroy": destroys}},
	"mc":     {subs: map[string]*program{"cp": {also: (*call).uploadsWords}, "mirror": {also: (*call).uploadsWords}, "pipe": {also: (*call).mails}, "rm": {flags: "r,recursive force", deeds: []rule{{Infrastructure, "-r"}}}, "rb": destroys}},
	"docker": docker, "podman": docker, "nerdctl": docker, "docker-compose": compose,
}

var compose = &program{
	flags: "f,file= p,project-name= profile= env-file= project-directory=",
	subs:  map[string]*program{"down": {flags: "v,volumes rmi= remove-orphans t,timeout=", deeds: []rule{{Infrastructure, "-v"}}}, "rm": {flags: "v f,force s,stop", deeds: []rule{{Infrastructure, "-v"}}}, "run": dockerRuns},
}

var docker = &program{
	flags: "H,host= c,context= config= l,log-level=",
	subs: map[string]*program{
		"system":  {subs: map[string]*program{"prune": {flags: "a,all volumes f,force filter=", deeds: []rule{{Infrastructure, "-a|-volumes"}}}}},
		"volume":  {subs: map[string]*program{"rm": destroys, "remove": destroys, "prune": destroys}},
		"compose": compose,
		"rm":      {flags: "f,force v,volumes l", also: (*call).dockerAll},
		"swarm":   {subs: map[string]*program{"leave": {flags: "f,force", deeds: []rule{{Infrastructure, "-f"}}}}},
		"stack":   {subs: map[string]*program{"rm": destroys}},
		"push":    publishes, "image": {subs: map[string]*program{"push": publishes}},
		"run":       dockerRuns,
		"create":    dockerRuns,
		"container": {subs: map[string]*program{"run": dockerRuns, "create": dockerRuns}},
	},
}

var dockerRuns = &program{
	flags: "v,volume= mount= privileged pid= e,env= name= p,publish= w,workdir= u,user= entrypoint= network,net= h,hostname= m,memory= l,label= a,attach= c= cap-add= cap-drop= device= env-file= add-host= " +
		"cpus= gpus= ipc= platform= pull= restart= runtime= security-opt= shm-size= tmpfs= ulimit= userns= volumes-from= rm i,interactive t,tty d,detach init read-only",
	rest: true, deeds: []rule{{SystemFile, "-privileged|-pid=host"}}, also: (*call).dockerRun,
}

var sqlFlags = "c,command,e,execute,Q,query,q= f,file=R i=R h,host=H p,port= P= U,username= u,user= d,dbname,database,D= o,output=W L=W v,set= A t x w W N B s password? default-character-set="

var databases = map[string]*program{
	"psql": {flags: sqlFlags, also: (*call).sql}, "mysql": {flags: "e,execute= h,host=H P,port= u,user= D,database= p,password? N B s default-character-set=", also: (*call).sql},
	"mariadb": {flags: "e,execute= h,host=H P,port= u,user= D,database= p,password? N B s", also: (*call).sql}, "sqlite3": {flags: "cmd= init=R separator= nullvalue= header csv json line list", dashes: true, words: "W", also: (*call).sql},
	"duckdb": {flags: "c= s= init=R", dashes: true, words: "W", also: (*call).sql}, "cockroach": {flags: sqlFlags, also: (*call).sql}, "cqlsh": {flags: sqlFlags, also: (*call).sql},
	"sqlcmd": {flags: "Q= q= i=R S=H U= P= d= o=W", also: (*call).sql}, "clickhouse-client": {flags: "q,query= h,host=H u,user= password= d,database= n", also: (*call).sql}, "clickhouse": {flags: "q,query=", also: (*call).sql},
	"usql": {flags: sqlFlags, also: (*call).sql}, "snowsql": {flags: sqlFlags, also: (*call).sql}, "sqlplus": {also: (*call).sql}, "pgcli": {flags: sqlFlags, also: (*call).sql}, "mycli": {flags: sqlFlags, also: (*call).sql},
	"dropdb": drops, "dropuser": drops, "mysqladmin": {flags: "u,user= h,host=H p? P= f", deeds: []rule{{DatabaseDrop, "@drop"}}},
	"pg_restore": {flags: "c,clean d,dbname= h,host=H U= p= j= C t= n=", deeds: []rule{{DatabaseDrop, "-c"}}},
	"redis-cli":  {flags: "h=H p= a= n= u= x eval=R user= pass= scan pattern= r= i= s=", also: (*call).redis}, "valkey-cli": {flags: "h=H p= a= n= u=", also: (*call).redis},
	"mongo": {flags: "eval= u,username= p,password= host=H port= quiet f,file=R", also: (*call).mongo}, "mongosh": {flags: "eval= u,username= p,password= host=H port= quiet f,file=R", also: (*call).mongo},
	"mongorestore": {flags: "drop db,d= uri= host=H", deeds: []rule{{DatabaseDrop, "-drop"}}},
	"rails":        {deeds: []rule{{DatabaseDrop, "@1=db:drop*|@1=db:reset|@1=db:schema:load|@1=db:purge"}}}, "rake": {deeds: []rule{{DatabaseDrop, "@db:drop*|@db:reset|@db:purge"}}},
	"prisma": {deeds: []rule{{DatabaseDrop, "@1=migrate @2=reset"}, {DatabaseDrop, "@1=db @2=push -force-reset"}}}, "supabase": {deeds: []rule{{DatabaseDrop, "@1=db @2=reset -linked"}}},
	"sequelize": {deeds: []rule{{DatabaseDrop, "@1=db:drop|@1=db:migrate:undo:all"}}}, "sequelize-cli": {deeds: []rule{{DatabaseDrop, "@1=db:drop|@1=db:migrate:undo:all"}}}, "typeorm": {deeds: []rule{{DatabaseDrop, "@1=schema:drop"}}},
	"artisan": {deeds: []rule{{DatabaseDrop, "@1=migrate:fresh|@1=migrate:reset|@1=db:wipe"}}}, "php": {flags: "r= d= f=", rest: true, deeds: []rule{{DatabaseDrop, "@1=artisan @2=migrate:fresh|@2=migrate:reset|@2=db:wipe"}}},
	"alembic": {flags: "c,config=", deeds: []rule{{DatabaseDrop, "@1=downgrade @2=base"}}}, "flyway": {deeds: []rule{{DatabaseDrop, "@clean"}}}, "liquibase": {deeds: []rule{{DatabaseDrop, "@dropall|@drop-all"}}},
	"django-admin": {deeds: []rule{{DatabaseDrop, "@1=flush|@1=reset_db|@1=sqlflush"}}}, "manage.py": {deeds: []rule{{DatabaseDrop, "@1=flush|@1=reset_db"}}},
	"influx": {deeds: []rule{{DatabaseDrop, "@1=delete"}, {DatabaseDrop, "@1=bucket @2=delete"}}}, "curator_cli": {deeds: []rule{{DatabaseDrop, "@delete*|@delete_indices"}}},
}
