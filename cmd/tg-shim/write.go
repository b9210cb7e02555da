package main

// together is how many bytes of small lines go out in one write. A pipe takes
// them without waiting unless its reader is slow.
const together = 16 << 10

// run writes what becomes ready until the lane is closed and has nothing left
// that can be written.
func (l *lane) run() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for !l.writing && len(l.places) > 0 && l.places[0].ready {
			l.head()
			l.changed.Broadcast()
		}
		if l.closed && !l.writing && (len(l.places) == 0 || !l.places[0].ready) {
			return
		}
		l.changed.Wait()
	}
}

// head writes what is ready at the head of the lane: small lines together, any
// other by itself. l.mu is held, and let go meanwhile.
func (l *lane) head() {
	l.scratch = l.scratch[:0] // nobody is writing
	for len(l.places) > 0 {
		p := l.places[0]
		if !p.ready || p.due != nil || len(l.scratch)+len(p.line) >= together {
			break
		}
		l.shift()
		if p.line != nil {
			l.scratch = append(append(l.scratch, p.line...), '\n')
		}
	}
	switch {
	case len(l.scratch) > 0:
		_ = l.write(nil) // kept in l.err
	case len(l.places) > 0 && l.places[0].ready:
		l.alone()
	}
}

// alone writes the line at the head. l.mu is held, and let go meanwhile.
func (l *lane) alone() {
	p := l.shift()
	line := p.line
	if p.due != nil {
		l.writing = true // keeps the order while the lock is not held
		l.mu.Unlock()
		line = p.due()
		l.mu.Lock()
		l.writing = false
	}
	if line != nil {
		_ = l.write(line) // kept in l.err
	}
}

// shift takes the head off the lane. l.mu is held.
func (l *lane) shift() *place {
	p := l.places[0]
	l.places[0] = nil
	l.places = l.places[1:]
	l.size -= len(p.line) + p.cost
	if p.owed {
		l.owed -= len(p.line)
	}
	return p
}

// write writes one line and its end, or where line is nil what stands in scratch.
// l.mu is held, and let go meanwhile.
func (l *lane) write(line []byte) error {
	if l.err != nil {
		return l.err
	}
	l.writing = true
	l.mu.Unlock()
	err := l.writeLine(line)
	l.mu.Lock()
	l.writing = false
	if err != nil {
		l.err = err
	}
	l.changed.Broadcast()
	return err
}

// writeLine belongs to whoever has set writing. A small line goes out with its
// end in one write; a large one is not copied for that.
func (l *lane) writeLine(line []byte) error {
	l.width.set(len(line) >= long)
	if line == nil {
		_, err := l.w.Write(l.scratch)
		return err
	}
	if len(line) < 64<<10 {
		l.scratch = append(append(l.scratch[:0], line...), '\n')
		_, err := l.w.Write(l.scratch)
		return err
	}
	if _, err := l.w.Write(line); err != nil {
		return err
	}
	_, err := l.w.Write([]byte{'\n'})
	return err
}
