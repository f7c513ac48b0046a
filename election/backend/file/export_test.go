package file

// SetFault makes operations on the disk fail by name. Call it before there are candidates.
func (b *Backend) SetFault(fault func(operation string) error) { b.fault = fault }
