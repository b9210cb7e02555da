package child

import (
	"testing"

	"github.com/thoughtgate/thoughtgated/internal/proc"
)

func TestClan(t *testing.T) {
	var f childFamily
	f.begin()
	f.began(proc.Info{Process: proc.Process{Start: 20}})
	if !f.alone(false) {
		t.Error("one child is not alone")
	}
	f.begin() // forked, but not yet known
	if f.alone(false) {
		t.Error("alone while another is being started")
	}
	f.began(proc.Info{Process: proc.Process{Start: 10}})
	if _, first := f.origin(); first != 10 {
		t.Errorf("first start %d, want 10", first)
	}
	if f.end() {
		t.Error("the first of two to end is said to be the last")
	}
	if f.alone(true) {
		t.Error("one that has ended is alone though another lives")
	}
	if !f.end() || !f.alone(true) {
		t.Error("the last is not said to be it")
	}
}
