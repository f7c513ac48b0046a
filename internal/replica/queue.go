package replica

// queue is a first-in first-out queue whose items keep their number, by which items that wait
// elsewhere can refer to them.
type queue[T any] struct {
	all   []T
	head  int
	first uint64 // number of all[head]
}

func (q *queue[T]) size() int { return len(q.all) - q.head }

// push adds an item and returns its number.
func (q *queue[T]) push(item T) uint64 {
	q.all = append(q.all, item)
	return q.first + uint64(q.size()) - 1
}

// add adds an empty item for the caller to fill in. It is valid until the next add.
func (q *queue[T]) add() *T {
	var none T
	q.all = append(q.all, none)
	return &q.all[len(q.all)-1]
}

// at returns the item with a number; nil if it has left the queue. It is valid until the next
// push.
func (q *queue[T]) at(number uint64) *T {
	if number < q.first || number-q.first >= uint64(q.size()) {
		return nil
	}
	return &q.all[q.head+int(number-q.first)]
}

// front returns the oldest item; nil if there is none.
func (q *queue[T]) front() *T {
	if q.size() == 0 {
		return nil
	}
	return &q.all[q.head]
}

// pop removes and returns the oldest item.
func (q *queue[T]) pop() T {
	item := q.all[q.head]
	q.discard()
	return item
}

// discard removes the oldest item.
func (q *queue[T]) discard() {
	var none T
	q.all[q.head] = none
	q.head++
	q.first++
	switch {
	case q.head == len(q.all):
		q.all, q.head = q.all[:0], 0
	case q.head > 1024 && q.head > len(q.all)/2:
		n := copy(q.all, q.all[q.head:])
		clear(q.all[n:])
		q.all, q.head = q.all[:n], 0
	}
}

// drop empties the queue. The numbering continues.
func (q *queue[T]) drop() {
	q.first += uint64(q.size())
	clear(q.all)
	q.all, q.head = q.all[:0], 0
}
