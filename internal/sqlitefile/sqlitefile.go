// Package sqlitefile reads the rows of a table from an SQLite database that another program writes,
// and that may be made to do harm. It takes no lock, makes and changes no file, and reads no more
// than it was allowed to, however the pages of the file refer to each other.
//
// SQLite itself does not promise that of such a file: it locks it, and a schema or a tree of pages
// can keep it busy without an end. What is needed of the format is little and has not changed since
// 2010: https://www.sqlite.org/fileformat2.html.
package sqlitefile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

var (
	// ErrTooMuch reports that more would have to be read than was allowed.
	ErrTooMuch = errors.New("the database is larger than what is read of it")
	// ErrNoTable reports that there is no table as it is expected.
	ErrNoTable = errors.New("the database has no such table")

	errDamaged = errors.New("the database is damaged")
)

const (
	// maxDepth is how many pages lie above each other in a tree; SQLite has the same limit.
	maxDepth = 20
	// maxColumns is how many values of a row are read.
	maxColumns = 64
	// maxFrames is how many pages of a write-ahead log are read.
	maxFrames = 1 << 17
	// headerSize is the size of the header in page 1, in bytes.
	headerSize = 100
)

// File is one state of a database: what was committed when it was opened. It is not safe for
// concurrent use.
type File struct {
	db, wal io.ReaderAt
	salt    []byte           // of the frames in the log that count
	frames  map[uint32]int64 // offset in the log of the latest frame of a page
	size    int64            // of a page, in bytes
	usable  int64            // bytes of a page that are used
	left    int64            // bytes that may still be read
	maxRow  int64
}

// Open returns the state of a database. db is its file, and wal the write-ahead log beside it, or nil
// if there is none; both must stay open. No more than max bytes are read, and rows with more than
// maxRow bytes are left out.
func Open(db, wal io.ReaderAt, max, maxRow int64) (*File, error) {
	f := &File{db: db, wal: wal, left: max, maxRow: maxRow}
	var header [headerSize]byte
	n, err := db.ReadAt(header[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if n == headerSize {
		f.size = sizeOf(uint32(binary.BigEndian.Uint16(header[16:])))
	}
	if wal != nil {
		if err := f.readLog(); err != nil {
			return nil, err
		}
	}
	if f.size < 512 || f.size > 1<<16 || f.size&(f.size-1) != 0 {
		return nil, errDamaged
	}
	f.usable = f.size
	first, err := f.page(1)
	if err != nil {
		return nil, err
	}
	f.usable -= int64(first[20])
	if isUTF8 := binary.BigEndian.Uint32(first[56:]) == 1; !isUTF8 || !strings.HasPrefix(string(first), "SQLite format 3\x00") || f.usable < 480 {
		return nil, errDamaged
	}
	return f, nil
}

// sizeOf returns the size of a page, of which 1 stands for 65536.
func sizeOf(size uint32) int64 {
	if size == 1 {
		return 1 << 16
	}
	return int64(size)
}

// readLog finds the pages in the write-ahead log that were committed. A frame from before the log was
// last begun anew has another salt. Checksums, which tell what a loss of power has left half-written, are
// not compared: whoever calls believes nothing that is in the file anyway.
func (f *File) readLog() error {
	var header [32]byte
	if _, err := f.wal.ReadAt(header[:], 0); errors.Is(err, io.EOF) {
		return nil // an empty one
	} else if err != nil {
		return err
	}
	size := sizeOf(binary.BigEndian.Uint32(header[8:]))
	if binary.BigEndian.Uint32(header[:])&^1 != 0x377f0682 || size < 512 || size > 1<<16 {
		return nil // as SQLite has it
	}
	f.salt = bytes.Clone(header[16:24])
	since, all := map[uint32]int64{}, map[uint32]int64{}
	at := int64(len(header))
	for range maxFrames {
		var frame [frameSize]byte
		_, err := f.wal.ReadAt(frame[:], at)
		if err == nil {
			_, err = f.wal.ReadAt(make([]byte, 1), at+frameSize+size-1) // it is whole
		}
		if errors.Is(err, io.EOF) || err == nil && !bytes.Equal(frame[8:16], f.salt) {
			f.frames = all
			if len(all) > 0 {
				f.size = size
			}
			return nil
		}
		if err != nil {
			return err
		}
		since[binary.BigEndian.Uint32(frame[:])] = at
		if pages := binary.BigEndian.Uint32(frame[4:]); pages > 0 {
			for page, at := range since {
				all[page] = at
			}
			clear(since)
		}
		at += frameSize + size
	}
	return ErrTooMuch
}

// frameSize is the size of what precedes a page in the log, in bytes.
const frameSize = 24

// page reads a page.
func (f *File) page(number uint32) ([]byte, error) {
	if f.left -= f.size; f.left < 0 {
		return nil, ErrTooMuch
	}
	if at, ok := f.frames[number]; ok {
		frame := make([]byte, frameSize+f.size)
		if _, err := f.wal.ReadAt(frame, at); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		} else if err != nil || binary.BigEndian.Uint32(frame) != number || !bytes.Equal(frame[8:16], f.salt) {
			return nil, fmt.Errorf("%w, or was written to meanwhile", errDamaged)
		}
		return frame[frameSize:], nil
	}
	if number == 0 {
		return nil, errDamaged
	}
	page := make([]byte, f.size)
	if _, err := f.db.ReadAt(page, int64(number-1)*f.size); errors.Is(err, io.EOF) {
		return nil, errDamaged
	} else if err != nil {
		return nil, err
	}
	return page, nil
}

// Rows calls visit with each row of a table, the latest first, until visit reports false. columns is how the
// text of the table's definition begins: without quotes, and with a space around each word and "(". A row that is too
// long or damaged is nil.
func (f *File) Rows(table, columns string, visit func(row []any) (more bool)) error {
	root := int64(0)
	_, err := f.walk(1, 0, func(row []any) bool {
		if len(row) != 5 || row[0] != "table" || row[1] != table {
			return true
		}
		definition, _ := row[4].(string)
		if plain := strings.NewReplacer("`", "", `"`, "", "[", "", "]", "", "(", " ( ").Replace(definition); strings.HasPrefix(strings.Join(strings.Fields(plain), " "), columns) {
			root, _ = row[3].(int64)
		}
		return false
	})
	if err != nil {
		return err
	}
	if root <= 1 || root > 1<<32-1 {
		return ErrNoTable
	}
	_, err = f.walk(uint32(root), 0, visit)
	return err
}

// walk calls visit with the rows in a tree of pages, last first.
func (f *File) walk(number uint32, depth int, visit func(row []any) bool) (more bool, err error) {
	page, err := f.page(number)
	if err != nil {
		return false, err
	}
	head := 0
	if number == 1 {
		head = headerSize
	}
	kind, cells, pointers := page[head], int(binary.BigEndian.Uint16(page[head+3:])), head+8
	isLeaf := kind == 13
	if !isLeaf {
		pointers += 4
	}
	if !isLeaf && kind != 5 || depth >= maxDepth || pointers+2*cells > int(f.usable) || cells == 0 && depth > 0 {
		return false, errDamaged
	}
	if !isLeaf {
		if more, err = f.walk(binary.BigEndian.Uint32(page[head+8:]), depth+1, visit); !more {
			return false, err
		}
	}
	for i := cells - 1; i >= 0; i-- {
		at := int(binary.BigEndian.Uint16(page[pointers+2*i:]))
		if at+4 > int(f.usable) {
			return false, errDamaged
		}
		if !isLeaf {
			more, err = f.walk(binary.BigEndian.Uint32(page[at:]), depth+1, visit)
		} else {
			var row []any
			if row, err = f.row(page[at:f.usable]); err == nil {
				more = visit(row)
			}
		}
		if !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// row reads the row in a cell. It is nil if it is too long or damaged.
func (f *File) row(cell []byte) ([]any, error) {
	length, cell := varint(cell)
	_, cell = varint(cell) // its number
	if length > uint64(f.maxRow) {
		return nil, nil
	}
	size, most, local := int64(length), f.usable-35, int64(length)
	if size > most {
		least := (f.usable-12)*32/255 - 23
		if local = least + (size-least)%(f.usable-4); local > most {
			local = least
		}
	}
	if int64(len(cell)) < local || size > local && int64(len(cell)) < local+4 {
		return nil, nil
	}
	if f.left -= local + 1; f.left < 0 { // all cells of a page may be the same one
		return nil, ErrTooMuch
	}
	record := bytes.Clone(cell[:local])
	for next := cell[local:]; int64(len(record)) < size; {
		page, err := f.page(binary.BigEndian.Uint32(next))
		if err != nil {
			return nil, err
		}
		next = page[:4]
		record = append(record, page[4:min(f.usable, 4+size-int64(len(record)))]...)
	}
	return values(record), nil
}

// values reads a record: texts, blobs, whole numbers (int64), and nil for NULL and other numbers.
func values(record []byte) (row []any) {
	length, kinds := varint(record)
	if length > uint64(len(record)) || len(record)-len(kinds) > int(length) {
		return nil
	}
	kinds, data := kinds[:len(kinds)-(len(record)-int(length))], record[length:]
	for len(kinds) > 0 && len(row) < maxColumns {
		var kind uint64
		kind, kinds = varint(kinds)
		size := sizes[min(kind, 11)]
		if kind >= 12 {
			size = (kind - 12) / 2
		}
		if size > uint64(len(data)) {
			return nil
		}
		value := data[:size]
		data = data[size:]
		switch {
		case kind >= 12 && kind%2 == 0:
			row = append(row, value)
		case kind >= 12:
			row = append(row, string(value))
		case kind == 8 || kind == 9:
			row = append(row, int64(kind-8))
		case kind == 0 || kind == 7 || kind > 9:
			row = append(row, nil)
		default:
			n := int64(int8(value[0]))
			for _, b := range value[1:] {
				n = n<<8 | int64(b)
			}
			row = append(row, n)
		}
	}
	return row
}

// sizes are those of values by their kind.
var sizes = [12]uint64{0, 1, 2, 3, 4, 6, 8, 8}

// varint reads a number of at most nine bytes, and returns what follows it. One that has no end is too
// large for anything.
func varint(from []byte) (n uint64, rest []byte) {
	for i, b := range from {
		if i == 8 {
			return n<<8 | uint64(b), from[9:]
		}
		if n = n<<7 | uint64(b&0x7f); b < 0x80 {
			return n, from[i+1:]
		}
	}
	return 1<<64 - 1, nil
}
