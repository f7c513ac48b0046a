module github.com/conclave-project/conclave

go 1.26

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/golang/snappy v1.0.0
)
