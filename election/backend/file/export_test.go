package file

// SetFault breaks operations on the disk by name, before there are candidates.
func (b *Backend) SetFault(fault func(operation string) error) { b.fault = fault }
