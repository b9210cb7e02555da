package agentconf

// Addresses returns the servers behind an address that the files of all known agents in env name. Several may
// have one name. Files that can't be read are left out. It changes nothing.
func Addresses(env Env) []Remote {
	var all []Remote
	for _, k := range kinds {
		if len(k.Agent.Files(env)) == 0 {
			continue // the person names its file each time
		}
		found, err := lookWith(k.Agent, env)
		if err != nil {
			continue
		}
		for e := range each(found.Sources) {
			one := *e
			if one.Remote == nil && one.address { // it is not governed
				one.describe(one.node(), k.Agent)
			}
			if one.Remote == nil || one.Remote.Address == "" {
				continue
			}
			r := *one.Remote
			if r.From = one.From; r.From == "" && one.comesWithProject(env) {
				r.From = one.File
			}
			all = append(all, r)
		}
	}
	return all
}
